"""Lanes and marks: nothing lies below one for ever; a lane goes when nothing can be in it."""

from typing import Any

from psycopg.types.json import Jsonb

from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Connection, Engine

Pair = tuple[Connection, Connection]
BELOW = (
    "select count(*) from skiplane.ready r join lateral (select m.due_at, m.estimate, m.id"
    " from skiplane.lane_mark m where m.lane = r.lane order by m.n desc limit 1) m on true"
    " where (r.due_at, r.estimate, r.id) < (m.due_at, m.estimate, m.id)"
)


class Scheduler(Engine):
    """One process that refreshes lanes, as time goes by."""

    state: str | None = None

    def tick(self, count: int = 1, seconds: float = 0.2) -> None:
        """Let time pass and refresh, so many times."""
        for _ in range(count):
            self.skip(seconds)
            self.refresh()

    def refresh(self) -> None:
        """Refresh once, with the state of the time before."""
        self.state = self.one("select skiplane.refresh_lanes(%s::jsonb)::text", [self.state])


def mark(engine: Engine) -> Any:
    """Give the position of the only mark."""
    [row] = engine.conn.execute("select due_at, id from skiplane.lane_mark").fetchall()
    return row


def test_mark_moves_to_the_first_live_task(live: Engine):
    scheduler = Scheduler(live.conn)
    ids = live.many(10)
    scheduler.tick(2)
    assert mark(live)[1] == ids[0]
    live.finish(live.claim(4))
    scheduler.tick()
    assert mark(live)[1] == ids[4]
    assert live.one(BELOW) == 0
    assert live.claim(10).ids == ids[4:]


def test_mark_waits_for_what_is_not_committed(two: Pair):
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    producer.submit()
    scheduler.refresh()
    with producer.conn.transaction():
        late = producer.submit()
        scheduler.claim()
        scheduler.refresh()
        quick = Engine(two[1]).submit()
        scheduler.refresh()
        scheduler.claim()
        scheduler.refresh()
    assert scheduler.one(BELOW) == 0
    assert scheduler.claim().ids == [late]
    assert scheduler.status(quick) == "RUNNING"


def test_mark_waits_for_the_newest_transaction_of_a_quiet_system(two: Pair):
    """Its id is the next one after the last that ended: a snapshot does not list it as running."""
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    scheduler.submit()
    scheduler.finish(scheduler.claim())
    scheduler.refresh()
    with producer.conn.transaction():
        task_id = producer.submit()
        scheduler.refresh()
    scheduler.refresh()
    assert scheduler.one(BELOW) == 0
    assert scheduler.claim().ids == [task_id]


def test_producer_that_commits_a_minute_late_is_served_at_the_next_tick(two: Pair):
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    producer.submit()
    scheduler.refresh()
    cursor: Any = None
    with producer.conn.transaction():
        late = producer.many(5)
        set_clock(scheduler.conn, producer.one("select skiplane.clock()"))
        for _ in range(120):
            scheduler.tick(seconds=0.5)
            scheduler.submit()
            claim = scheduler.claim(5)
            cursor = claim.cursor
            scheduler.finish(claim)
        # The held transaction does not hold the mark back.
        assert scheduler.one(
            "select due_at > skiplane.clock() - interval '5 seconds' from skiplane.lane_mark"
        )
    assert scheduler.one(BELOW) == 5
    scheduler.tick()
    assert scheduler.one(BELOW) == 0
    assert set(scheduler.claim(10).ids) == set(late)
    assert cursor is not None


def test_restarted_scheduler_finds_what_lies_below_the_marks(two: Pair):
    """The state of the one before, which knew of the late producer, is lost."""
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    producer.submit()
    scheduler.refresh()
    with producer.conn.transaction():
        late = producer.submit()
        set_clock(scheduler.conn, producer.one("select skiplane.clock()"))
        for _ in range(10):
            scheduler.tick(seconds=0.5)
            scheduler.submit()
            scheduler.finish(scheduler.claim(5))
    assert scheduler.one(BELOW) == 1
    Scheduler(two[1]).refresh()
    assert scheduler.one(BELOW) == 0
    assert scheduler.claim(10).ids == [late]


def test_second_scheduler_takes_over_a_late_producer(two: Pair):
    """Both see the late one while it is open; the first dies before it ends."""
    producer, first = Engine(two[0]), Scheduler(two[1])
    second = Scheduler(two[1])
    producer.submit()
    first.refresh()
    second.refresh()
    with producer.conn.transaction():
        late = producer.submit()
        set_clock(first.conn, producer.one("select skiplane.clock()"))
        for _ in range(10):
            first.tick(seconds=0.25)
            second.tick(seconds=0.25)
            first.submit()
            first.finish(first.claim(5))
    second.tick()
    assert first.one(BELOW) == 0
    assert first.claim(10).ids == [late]


def test_writer_that_only_the_other_scheduler_saw_grow_old_is_served(two: Pair):
    """The first moves the marks past it and dies; the second looked last when it was young."""
    producer, first, second = Engine(two[0]), Scheduler(two[1]), Scheduler(two[1])
    for scheduler in (first, second):
        scheduler.submit()
        scheduler.finish(scheduler.claim())
        scheduler.refresh()
    with producer.conn.transaction():
        late = producer.submit()
        set_clock(first.conn, producer.one("select skiplane.clock()"))
        first.tick(seconds=0.1)
        second.tick(seconds=0.8)
        first.tick(3, seconds=0.3)
    second.tick()
    assert second.one(BELOW) == 0
    assert second.claim().ids == [late]


def test_clock_that_steps_back_hides_nothing(live: Engine):
    """A time server or a resumed machine: new tasks are older than the mark then."""
    scheduler = Scheduler(live.conn)
    live.submit()
    live.finish(live.claim())
    scheduler.tick(3, seconds=60)
    scheduler.skip(-170)
    task_id = live.submit()
    scheduler.tick(3)
    assert live.one(BELOW) == 0
    assert live.claim().ids == [task_id]


def test_rolled_back_claim_is_found_again(two: Pair):
    worker, scheduler = Engine(two[0]), Scheduler(two[1])
    ids = scheduler.many(5)
    scheduler.tick(2)
    with worker.conn.transaction(force_rollback=True):
        assert worker.claim(3).ids == ids[:3]
        scheduler.tick(3)
        assert scheduler.claim(1).ids == [ids[3]]
        scheduler.tick(3)
    assert scheduler.one(BELOW) == 0
    assert scheduler.claim(10).ids == [*ids[:3], ids[4]]


def test_idle_lane_is_closed_and_then_dropped(live: Engine):
    scheduler = Scheduler(live.conn)
    live.submit()
    live.finish(live.claim())
    scheduler.tick(3)
    assert live.one("select count(*) from skiplane.lane where closed_at is null") == 1
    scheduler.tick(4, seconds=30)
    assert live.one("select count(*) from skiplane.lane") == 0
    assert live.one("select count(*) from skiplane.lane_mark") == 0
    task_id = live.submit()
    scheduler.tick()
    assert live.claim().ids == [task_id]


def test_lane_with_work_is_never_closed(live: Engine):
    scheduler = Scheduler(live.conn)
    task_id = live.submit()
    scheduler.tick(5, seconds=600)
    assert live.one("select count(*) from skiplane.lane where closed_at is null") == 1
    assert live.claim().ids == [task_id]


def test_lane_stays_while_a_writer_may_have_seen_it_open(two: Pair):
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    scheduler.submit()
    scheduler.finish(scheduler.claim())
    scheduler.tick(2)
    set_clock(producer.conn, scheduler.one("select skiplane.clock()"))
    with producer.conn.transaction():
        task_id = producer.submit()
        scheduler.tick(10, seconds=60)
        assert scheduler.one("select closed_at is not null from skiplane.lane") is True
    scheduler.tick(10, seconds=60)
    assert scheduler.one("select count(*) from skiplane.lane") == 1
    claim = scheduler.claim()
    assert claim.ids == [task_id]
    scheduler.finish(claim)
    scheduler.tick(3, seconds=60)
    assert scheduler.one("select count(*) from skiplane.lane") == 0


def test_old_snapshot_never_puts_a_task_into_a_lane_that_is_gone(two: Pair):
    """Under REPEATABLE READ a producer sees lanes as they were when its transaction began."""
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    scheduler.submit()
    scheduler.finish(scheduler.claim())
    two[0].execute("set default_transaction_isolation = 'repeatable read'")
    with producer.conn.transaction():
        assert producer.one("select count(*) from skiplane.lane") == 1
        scheduler.tick(5, seconds=60)
        assert scheduler.one("select count(*) from skiplane.lane") == 0
        task_id = producer.submit()
    scheduler.tick()
    assert scheduler.claim().ids == [task_id]


def test_old_snapshot_holds_the_lane_that_it_uses(two: Pair):
    producer, scheduler = Engine(two[0]), Scheduler(two[1])
    scheduler.submit()
    scheduler.finish(scheduler.claim())
    two[0].execute("set default_transaction_isolation = 'serializable'")
    with producer.conn.transaction():
        task_id = producer.submit()
        scheduler.tick(5, seconds=60)
    scheduler.tick(5, seconds=60)
    assert scheduler.claim().ids == [task_id]


def test_marks_of_many_lanes_move_in_slices(live: Engine):
    live.rows("submit_tasks", tasks=Jsonb([{"task_type": f"t{n}"} for n in range(450)]))
    scheduler = Scheduler(live.conn)
    counts = []
    for _ in range(4):
        scheduler.tick()
        counts.append(live.one("select count(*), count(distinct lane) from skiplane.lane_mark"))
    assert counts == [(200, 200), (400, 400), (450, 450), (450, 450)]
