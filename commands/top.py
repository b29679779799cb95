"""skiplane top"""

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import rich_click as click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..config import Config
from ..schema import watch_calls as calls
from ..schema.task_calls import list_tasks
from .database import Database, database
from .options import configured
from .output import console, json_option, print_json, short, span, table, utc_text, when

FAILURES = 8
UNHAPPY = ("FAILED", "DEAD")
# The server's statistics are brought up to date about once a second.
SHORTEST_LOOK = 1.1


class Look(NamedTuple):
    """One look at the system. Rates are tasks per second since the last look."""

    submitted_per_s: float
    ended_per_s: float
    queues: list[calls.Queue]
    workers: list[calls.Worker]
    failures: list[dict[str, Any]]


@click.command()
@click.option("--once", is_flag=True, help="Print it once and end.")
@click.option(
    "--every",
    type=click.FloatRange(SHORTEST_LOOK, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@json_option
@configured("dsn")
def top(config: Config, once: bool, every: float, as_json: bool) -> None:
    """Watch queues and workers live.

    Depths are as old as the scheduler's last count, which it makes as often as
    is cheap. With --json it prints one document per look.
    """
    with database(config) as db:
        looks = look_on(db, SHORTEST_LOOK if once else every)
        if once or as_json or not sys.stdout.isatty():
            for look in looks:
                _print(look, as_json)
                if once:
                    return
        with Live(console=console(), screen=True, auto_refresh=False) as live:
            try:
                for look in looks:
                    live.update(picture(look), refresh=True)
            except KeyboardInterrupt:
                return


def look_on(db: Database, every: float) -> Iterator[Look]:
    """Look at the system again and again; the first look takes as long as a pause."""
    before = db.run(calls.counters())
    while True:
        time.sleep(every)
        now = db.run(calls.counters())
        seconds = max(now.at - before.at, 0.001)
        yield Look(
            # Never below zero: dropping a partition takes its share with it.
            round(max(0, now.submitted - before.submitted) / seconds, 1),
            round(max(0, now.ended - before.ended) / seconds, 1),
            db.run(calls.queues()),
            db.run(calls.workers()),
            db.documents(list_tasks(status=UNHAPPY, limit=FAILURES)),
        )
        before = now


def picture(look: Look) -> RenderableType:
    """Draw it."""
    workers = [w for w in look.workers if w.status == "RUNNING"]
    slots = sum(worker.concurrency for worker in workers)
    summary = (
        f"{look.submitted_per_s:,.0f} became due/s   {look.ended_per_s:,.0f} ended/s   "
        f"{sum(q.depth for q in look.queues):,} waiting   "
        f"{sum(w.holding for w in look.workers):,} held by {len(workers)} workers ({slots} slots)"
    )
    return Group(
        Text(summary, style="bold"),
        Text(),
        _queues(look),
        Text(),
        _workers(look),
        Text(),
        _failures(look),
    )


def _queues(look: Look) -> RenderableType:
    rows = [
        (q.queue, q.priority, f"{q.depth:,}", span(q.oldest_seconds), when(q.refreshed_at))
        for q in look.queues
    ]
    columns = ("queue", "priority", "waiting", "oldest", "counted at")
    return table("Queues", columns, rows)


def _workers(look: Look) -> RenderableType:
    rows = [
        (w.name, w.status, ", ".join(w.queues), w.concurrency, w.holding, span(w.up_seconds),
         span(w.silent_seconds))
        for w in look.workers
    ]  # fmt: skip
    columns = ("worker", "status", "queues", "slots", "holds", "up", "last heard of")
    return table("Workers", columns, rows)


def _failures(look: Look) -> RenderableType:
    rows = [
        (when(f.get("completed_at")), f["task_type"], f["status"], f["task_id"],
         short(f.get("error_message") or ""))
        for f in look.failures
    ]  # fmt: skip
    columns = ("ended", "type", "status", "task", "error")
    return table("Newest failures", columns, rows)


def _print(look: Look, as_json: bool) -> None:
    if not as_json:
        console().print(picture(look))
        return
    document: dict[str, Any] = look._asdict()
    document["queues"] = [_plain(queue) for queue in look.queues]
    document["workers"] = [_plain(worker) for worker in look.workers]
    print_json(document)


def _plain(row: calls.Queue | calls.Worker) -> dict[str, Any]:
    plain = row._asdict()
    if isinstance(row, calls.Queue):
        plain["refreshed_at"] = utc_text(row.refreshed_at)
    else:
        plain["worker_id"] = str(row.worker_id)
    return plain
