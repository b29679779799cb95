"""A held snapshot keeps every dead row; no call walks them."""

import psycopg

from skiplane.tests.bloat.conftest import NOISE, Load
from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Connection, Engine

BATCH = 50
ROUNDS = 60
TICK = 0.2


def work(load: Load, rounds: int, *, tick: bool = True) -> None:
    """Let tasks come and go at a steady rate, with the scheduler's tick."""
    for _ in range(rounds):
        load.come(BATCH)
        assert len(load.next_batch(BATCH)) == BATCH
        load.skip(TICK)
        if tick:
            load.refresh()


def test_claim_reads_no_more_as_dead_rows_pile_up(load: Load, snapshot: Connection):
    work(load, 5)
    load.come(BATCH)
    early = load.reads_of_claim(BATCH, load.cursor)
    work(load, ROUNDS)
    late = load.reads_of_claim(BATCH, load.cursor)
    assert late < early + NOISE, (early, late)
    # A worker that has just started knows no place, and finds it by the mark.
    fresh = load.reads_of_claim(BATCH)
    assert fresh < early + NOISE, (early, fresh)


def test_without_marks_it_would(load: Load, snapshot: Connection):
    """The rows are there and cost something: else the test above would prove nothing."""
    load.come(BATCH)
    early = load.reads_of_claim(BATCH)
    work(load, ROUNDS, tick=False)
    load.come(BATCH)
    assert load.reads_of_claim(BATCH) >= early + BATCH * ROUNDS


def test_many_lanes_read_no_more(load: Load, snapshot: Connection):
    def come_and_go(rounds: int) -> None:
        for _ in range(rounds):
            for tenant in ("a", "b", "c"):
                for priority in ("high", "low"):
                    load.come(10, priority=priority, metadata={"tenant_id": tenant})
            assert len(load.next_batch(60)) == 60
            load.skip(TICK)
            load.refresh()

    come_and_go(5)
    early = load.reads_of_claim(BATCH, load.cursor)
    come_and_go(ROUNDS)
    late = load.reads_of_claim(BATCH, load.cursor)
    assert late < early + NOISE, (early, late)


def test_producer_that_commits_late_is_served_after_the_next_tick(
    dsn: str, load: Load, snapshot: Connection
):
    work(load, 3)
    with psycopg.connect(dsn, autocommit=True) as conn:
        producer = Engine(conn)
        set_clock(conn, load.one("select skiplane.clock()"))
        with conn.transaction():
            late = producer.many(5)
            work(load, ROUNDS)
            mark = load.one("select max(due_at) from skiplane.lane_mark")
        assert mark > producer.one("select max(due_at) from skiplane.ready")
    load.refresh()
    found = set(load.next_batch(BATCH))
    assert found >= set(late)
    # And moving them has not cost the next claims anything.
    work(load, 2)
    assert load.reads_of_claim(BATCH, load.cursor) < 2000


def test_finish_reads_no_more(load: Load, snapshot: Connection):
    def reads() -> int:
        load.come(BATCH)
        load.next_batch(BATCH)
        query = "select * from skiplane.finish_tasks(%s, %s, %s, %s)"
        return load.reads(query, [load.worker, load.lease_id, load.held, ["1"] * BATCH])

    work(load, 5)
    early = reads()
    work(load, ROUNDS)
    late = reads()
    assert late < early + NOISE, (early, late)


def test_refresh_and_wake_read_no_more(load: Load, snapshot: Connection):
    def reads() -> list[int]:
        load.come(BATCH)
        refresh = load.reads("select skiplane.refresh_lanes(%s)", [load.state])
        return [refresh, load.reads("select skiplane.wake_workers()")]

    work(load, 5)
    early = reads()
    work(load, ROUNDS)
    late = reads()
    assert all(b < a + NOISE for a, b in zip(early, late, strict=True)), (early, late)
