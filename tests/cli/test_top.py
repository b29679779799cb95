"""skiplane top"""

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


def fill(engine: Engine) -> None:
    """Three tasks wait, one runs, one is dead."""
    engine.value(
        "register_worker", worker_id=engine.worker, name="ann", queues=["default"], concurrency=4
    )
    engine.submit(task_type="doomed", max_retries=0)
    engine.fail(engine.claim(), error_type="ValueError", error_message="no luck")
    engine.many(4)
    engine.claim()
    engine.value("refresh_depth")


def test_once_shows_queues_workers_and_failures(skiplane: Run, engine: Engine):
    fill(engine)
    said = skiplane("top", "--once")
    assert said.code == 0
    for word in ("3 waiting", "1 held", "4 slots", "ann", "default", "no luck", "DEAD"):
        assert word in said.out


def test_json_holds_the_same(skiplane: Run, engine: Engine):
    fill(engine)
    document = skiplane("top", "--once", "--json").document
    assert set(document) == {"submitted_per_s", "ended_per_s", "queues", "workers", "failures"}
    [queue] = document["queues"]
    assert (queue["queue"], queue["priority"], queue["depth"]) == ("default", "medium", 3)
    assert queue["refreshed_at"].endswith("Z")
    [worker] = document["workers"]
    assert (worker["name"], worker["holding"], worker["concurrency"]) == ("ann", 1, 4)
    [failure] = document["failures"]
    assert failure["error_message"] == "no luck"


def test_empty_system_is_shown_too(skiplane: Run):
    said = skiplane("top", "--once")
    assert said.code == 0
    assert "Workers: none" in said.out
