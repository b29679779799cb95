"""The scheduler's sweeps under a held snapshot."""

import datetime

import pytest

from skiplane.tests.bloat.conftest import NOISE, Load
from skiplane.tests.support.engine import Connection

BATCH = 50
ROUNDS = 60
PROMOTE = "select * from skiplane.promote_tasks(1000, %s)"
SWEEP = "select * from skiplane.sweep_leases(5, %s)"


@pytest.fixture(params=["partition", "far"])
def far(request: pytest.FixtureRequest, load: Load) -> str:
    """Let times wait in their partitions, or with maintenance off for too long."""
    if request.param == "far":
        load.skip(12 * 86400)
    return str(request.param)


def test_promotion_reads_no_more(load: Load, far: str, snapshot: Connection):
    after: datetime.datetime | None = None

    def work(rounds: int) -> None:
        nonlocal after
        for _ in range(rounds):
            load.come(BATCH, delay_seconds=0.1)
            load.skip(0.2)
            load.refresh()
            promoted, _, after = load.value("promote_tasks", limit=1000, after=after)
            assert promoted == BATCH
            load.next_batch(BATCH)

    work(10)
    load.come(BATCH, delay_seconds=0.1)
    load.skip(0.2)
    early = load.reads(PROMOTE, [after])
    load.value("promote_tasks")
    load.next_batch(BATCH)
    work(ROUNDS)
    load.come(BATCH, delay_seconds=0.1)
    load.skip(0.2)
    late = load.reads(PROMOTE, [after])
    assert late < early + NOISE, (early, late)
    # The dead are there: a full look walks them.
    assert load.reads(PROMOTE, [None]) > late + BATCH * ROUNDS / 2


def test_backlog_larger_than_the_limit_is_promoted_without_a_pause(load: Load):
    ids = load.come(250, delay_seconds=1)
    load.refresh()
    load.skip(30)
    load.refresh()
    after: datetime.datetime | None = None
    counts = []
    for _ in range(4):
        promoted, _, after = load.value("promote_tasks", limit=100, after=after)
        counts.append(promoted)
        load.refresh()
    assert counts == [100, 100, 50, 0]
    assert set(load.claim(1000).ids) == set(ids)


def test_sweep_of_leases_reads_no_more(load: Load, snapshot: Connection):
    after: datetime.datetime | None = None

    def work(rounds: int) -> None:
        nonlocal after
        for _ in range(rounds):
            # Small leases, so that there are many, with time-outs.
            for _ in range(5):
                load.come(2, timeout_seconds=1)
                load.next_batch(2)
            load.skip(0.5)
            load.refresh()
            returned, after = load.value("sweep_leases", limit=5, after=after)
            assert returned == 0

    work(60)
    early = load.reads(SWEEP, [after])
    work(4 * ROUNDS)
    late = load.reads(SWEEP, [after])
    assert late < early + NOISE, (early, late)
    assert load.reads(SWEEP, [None]) > late + 5 * ROUNDS


def test_overdue_leases_beyond_the_limit_are_swept_without_a_pause(load: Load):
    for _ in range(12):
        load.come(1, timeout_seconds=1)
        load.claim(1, lease_seconds=3600)
    load.skip(60)
    after: datetime.datetime | None = None
    counts = []
    for _ in range(4):
        returned, after = load.value("sweep_leases", limit=5, after=after)
        counts.append(returned)
        load.skip(6)
    assert counts == [5, 5, 2, 0]
