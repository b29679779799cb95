"""What is logged inside a task carries its ids."""

from pathlib import Path

import pytest

from skiplane.tests.worker.helpers import Tasks, running_worker

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize("task_type", ["async_logs", "pool_logs", "thread_logs"])
def test_lines_of_a_task_carry_its_ids(dsn: str, tmp_path: Path, tasks: Tasks, task_type: str):
    with running_worker(dsn, tmp_path) as worker:
        metadata = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        task_id = tasks.submit(task_type, {}, metadata=metadata)
        assert tasks.wait(task_id)["status"] == "SUCCEEDED"
        started = worker.wait_for("worker started")
        assert "task_id" not in started
        for event in ("the task speaks", "a library speaks"):
            record = worker.wait_for(event)
            ids = {key: record[key] for key in ("task_id", "task_type", "attempt", "trace_id")}
            assert ids == {
                "task_id": task_id,
                "task_type": task_type,
                "attempt": 1,
                "trace_id": TRACE,
            }
            assert record["worker_id"] == started["worker_id"]
