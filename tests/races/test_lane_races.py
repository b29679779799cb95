"""Two schedulers look after the same lanes at the same moment."""

from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Connection, Engine
from skiplane.tests.support.races import Racer

Pair = tuple[Connection, Connection]
MARKS = "select count(*) from skiplane.lane_mark"


def tick(engine: Engine, count: int = 1) -> None:
    """Let time pass and refresh as a scheduler that has just begun, so many times."""
    for _ in range(count):
        engine.skip(0.2)
        engine.value("refresh_lanes")


def test_two_schedulers_leave_one_mark(two: Pair, watcher: Engine):
    first, second = Engine(two[0]), Engine(two[1])
    first.many(3)
    for _ in range(3):
        first.value("refresh_lanes")
        first.finish(first.claim())
        first.submit()
        with first.conn.transaction():
            first.value("refresh_lanes")
            racer = Racer(second, "refresh_lanes")
            racer.wait_settled(watcher)
        racer.result()
    assert first.one(MARKS) == 1


def test_clock_that_is_read_a_moment_too_early_has_not_stepped_back(two: Pair):
    """It reads the clock, and then the other's sample, which is of a moment later."""
    early, late = Engine(two[0]), Engine(two[1])
    early.submit()
    early.finish(early.claim())
    set_clock(late.conn, early.one("select skiplane.clock()"))
    set_clock(early.conn, early.one("select skiplane.clock()"))
    tick(late, 3)
    before = late.one("select max(due_at) from skiplane.lane_mark")
    with late.conn.transaction():
        late.value("refresh_lanes")
        early.value("refresh_lanes")
    assert late.one("select max(due_at) from skiplane.lane_mark") >= before
