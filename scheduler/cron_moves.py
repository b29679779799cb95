"""What becomes of a schedule that is due: which fires it makes, and when it is due next.

Being late is not the same as having missed. As long as the earliest fire that is due
is at most a minute late, all of them run: a restart of the schedulers loses nothing.
After a longer pause the schedule's policy decides, over all of them.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, pairwise

from ..firetimes import FireTimes, fire_times, first_fire
from ..schema.cron_loop_calls import Due, Move
from ..schema.errors import InvalidInput

LATE = timedelta(minutes=1)
# Fires of one schedule in one transaction; the rest follows in the next.
MOST_FIRES = 10


def moves_of(due: Due, now: datetime) -> list[Move]:
    """Give the steps that bring a schedule past ``now``, or as far as one turn may go."""
    try:
        times = fire_times(due.expression, due.zone)
        if due.was is None:
            first = first_fire(due.expression, due.zone, due.since, due.start_at, due.end_at)
            return [Move(due.id, next=first)]
        fires, catch_up = _fires(due, due.was, times, now)
        last = fires[-1] if fires else now
        following = next(times.upcoming(last, due.start_at, due.end_at), None)
    except InvalidInput as error:
        reason = f"{error.message} {error.remedy or ''}".strip()
        return [Move(due.id, due.was, error=reason)]
    return _steps(due.id, due.was, fires, following, catch_up)


def _fires(
    due: Due, was: datetime, times: FireTimes, now: datetime
) -> tuple[Sequence[datetime], bool]:
    """Give the fires to make in this turn, and whether they make up for missed ones."""
    until = now if due.end_at is None else min(now, due.end_at)
    if now - was <= LATE:
        later = times.upcoming(was, end_at=until)
        return [was, *islice(later, MOST_FIRES - 1)], False
    following = next(times.upcoming(was, end_at=until), None)
    if following is None and due.missed_policy != "skip":
        return [was], False
    count = due.missed_limit if due.missed_policy == "all" else 1
    fires = times.latest(count, was - timedelta(microseconds=1), until)
    if due.missed_policy == "skip":
        return [fire for fire in fires if now - fire <= LATE], False
    return fires[:MOST_FIRES], due.missed_policy == "all"


def _steps(
    schedule_id: str,
    was: datetime,
    fires: Sequence[datetime],
    following: datetime | None,
    catch_up: bool,
) -> list[Move]:
    if not fires:
        return [Move(schedule_id, was, next=following, missed=True)]
    stops = [*fires, following]
    steps = []
    for fire, then in pairwise(stops):
        first = fire == fires[0]
        place = was if first else fire
        steps.append(Move(schedule_id, place, fire, then, catch_up, missed=first and fire != was))
    return steps
