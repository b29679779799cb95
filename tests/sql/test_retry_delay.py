"""The delay before a retry: tables of the formula."""

from typing import Any

import pytest

from skiplane.tests.support.engine import Engine

BASE, CAP = 2.0, 100.0


def delay(engine: Engine, attempt: int, backoff: str, jitter: str, **options: Any) -> float:
    """Ask for a delay with base 2 s and cap 100 s unless told otherwise."""
    arguments: dict[str, Any] = {"base": BASE, "max": CAP, "random": 0.5, **options}
    return float(
        engine.value("retry_delay", attempt=attempt, backoff=backoff, jitter=jitter, **arguments)
    )


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ("exponential", [2, 4, 8, 16, 32, 64, 100, 100]),
        ("linear", [2, 4, 6, 8, 10, 12, 14, 16]),
        ("fixed", [2] * 8),
    ],
)
@pytest.mark.parametrize(
    ("jitter", "low", "high"), [("none", 1, 1), ("full", 0, 1), ("equal", 0.5, 1)]
)
def test_delay_is_backoff_then_cap_then_jitter(
    engine: Engine, backoff: str, expected: list[float], jitter: str, low: float, high: float
):
    for attempt, plain in enumerate(expected, start=1):
        bounds = [delay(engine, attempt, backoff, jitter, random=r) for r in (0.0, 1.0)]
        assert bounds == [plain * low, plain * high]


@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
@pytest.mark.parametrize(
    ("previous", "random", "expected"),
    [(None, 0.0, 2), (None, 1.0, 6), (10, 0.0, 2), (10, 1.0, 30), (10, 0.5, 16), (60, 1.0, 100)],
)
def test_decorrelated_delay_looks_at_the_one_before(
    engine: Engine, backoff: str, previous: float | None, random: float, expected: float
):
    found = delay(engine, 5, backoff, "decorrelated", previous=previous, random=random)
    assert found == expected


@pytest.mark.parametrize("attempt", [38, 47, 62, 63, 64, 1023, 1024, 1100, 10001])
@pytest.mark.parametrize("jitter", ["none", "full", "equal", "decorrelated"])
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
def test_high_attempts_never_overflow(engine: Engine, attempt: int, jitter: str, backoff: str):
    for base, cap in ((1.0, 3600.0), (31536000.0, 31536000.0), (0.001, 0.01)):
        found = delay(engine, attempt, backoff, jitter, base=base, max=cap, random=0.999)
        assert 0 <= found <= cap
        if backoff == "exponential" and jitter == "none":
            assert found == cap


@pytest.mark.parametrize("jitter", ["none", "full", "equal", "decorrelated"])
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
def test_base_zero_stays_zero(engine: Engine, backoff: str, jitter: str):
    assert {delay(engine, n, backoff, jitter, base=0, previous=0.0) for n in (1, 5, 1100)} == {0}


def test_cap_below_the_base_wins(engine: Engine):
    for jitter in ("none", "equal", "full", "decorrelated"):
        assert delay(engine, 1, "fixed", jitter, base=50, max=1, random=0.99) <= 1


def test_each_task_of_a_batch_gets_a_delay_of_its_own(engine: Engine):
    engine.many(200, retry_jitter="full", retry_delay_seconds=100)
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    engine.fail(engine.claim(200))
    spread = engine.one(
        "select count(distinct due_at), extract(epoch from max(due_at) - min(due_at))::float"
        " from skiplane.timer"
    )
    assert spread[0] >= 195
    assert spread[1] > 80


def test_task_with_many_retries_stays_retryable(engine: Engine):
    """Attempt 1100 of a real task: no overflow on the way to the timer."""
    task_id = engine.submit(
        max_retries=2000, retry_delay_seconds=1, retry_max_delay_seconds=0.01, retry_jitter="none"
    )
    for attempt in (37, 61, 1022, 1023, 1099, 1999):
        engine.conn.execute("update skiplane.ready set attempt = %s", [attempt])
        engine.fail(engine.claim())
        assert engine.get(task_id)["attempt"] == attempt + 1
        engine.skip(0.011)
        assert engine.value("promote_tasks")[0] == 1
    engine.conn.execute("update skiplane.ready set attempt = 2000")
    engine.fail(engine.claim())
    assert engine.status(task_id) == "DEAD"
