"""Looking at partitions, and moving sessions through time."""

import contextlib
import datetime
from collections.abc import Iterator

import psycopg
from psycopg import sql

from skiplane.tests.support.engine import Connection, Engine

DAY = 86400.0
PARENTS = (
    "task",
    "outcome",
    "attempt",
    "workflow",
    "workflow_state",
    "workflow_task",
    "fire",
    "timer",
)
BOUNDS = """
select pg_get_expr(c.relpartbound, c.oid) from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = ('skiplane.' || %s)::regclass order by 1
"""


def today(engine: Engine) -> datetime.date:
    """Give the UTC day of the session's clock."""
    day = engine.one("select skiplane._utc_day(skiplane.clock())")
    assert isinstance(day, datetime.date)
    return day


def covered(engine: Engine, parent: str, day: datetime.date) -> bool:
    """Tell whether a table has a partition for a day."""
    return bool(engine.one("select skiplane._has_partition(%s, %s)", [parent, day]))


def bounds(conn: Connection, parent: str) -> list[str]:
    """Give the bounds of a table's partitions as UTC sees them."""
    with conn.transaction():
        conn.execute("set local timezone = 'UTC'")
        return [row[0] for row in conn.execute(BOUNDS.encode(), [parent])]


def expected_bounds(parent: str, days: list[datetime.date]) -> list[str]:
    """Give the bounds of daily partitions in UTC."""
    tail = " 00:00:00+00" if parent == "timer" else ""
    one = datetime.timedelta(days=1)
    return [f"FOR VALUES FROM ('{d}{tail}') TO ('{d + one}{tail}')" for d in days]


def maintain(engine: Engine, **arguments: int) -> list[str]:
    """Run maintenance; give what it did."""
    return [row[0] for row in engine.rows("maintain_partitions", **arguments)]


def until_nothing(engine: Engine) -> list[str]:
    """Run maintenance until it has nothing left to do; give all that it did."""
    said: list[str] = []
    while lines := maintain(engine):
        said += lines
        assert len(said) < 1000
    return said


@contextlib.contextmanager
def at_the_same_time(dsn: str, engine: Engine) -> Iterator[Engine]:
    """Give the verbs on another connection with the clock of this one."""
    with psycopg.connect(dsn, autocommit=True) as other:
        now = engine.one("select current_setting('skiplane.now')")
        other.execute(sql.SQL("set skiplane.now = {}").format(sql.Literal(now)))
        yield Engine(other)
