"""A database with something on every page of the dashboard, under names of the test's choice."""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from .engine import Engine


@dataclass
class Scenario:
    """What was made."""

    tasks: dict[str, uuid.UUID] = field(default_factory=dict)
    worker: uuid.UUID = field(default_factory=uuid.uuid4)
    workflow: uuid.UUID = field(default_factory=uuid.uuid4)
    schedule: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def pages(self) -> list[str]:
        """Paths that show all of it."""
        lists = ("tasks", "dead-letters", "failures?span=1h", "queues", "workers")
        more = ("workflows", "schedules", "schedules/new")
        return [
            "/ui",
            *(f"/ui/{name}" for name in (*lists, *more)),
            *(f"/ui/tasks/{id_}" for id_ in self.tasks.values()),
            f"/ui/tasks/{self.tasks['scheduled']}/edit",
            "/ui/dead-letters/retry",
            "/ui/dead-letters/discard",
            f"/ui/workers/{self.worker}",
            f"/ui/workflows/{self.workflow}",
            f"/ui/schedules/{self.schedule}",
            f"/ui/schedules/{self.schedule}/edit",
        ]


def fill(engine: Engine, name: str = "work", text: str = "something", **options: Any) -> Scenario:
    """Make a task in every state, a worker, a workflow and a schedule.

    Args:
        engine: On the database.
        name: Of types, queues, workers and whatever else has a name.
        text: In payloads, results, errors, reasons.
        options: For every task, such as metadata.
    """
    made = Scenario()
    engine.worker = made.worker
    engine.value(
        "register_worker", worker_id=made.worker, name=name, queues=[name, "default"], host=name,
        concurrency=4, pid=1, lease_seconds=3600,
    )  # fmt: skip
    # The rollup begins before anything ends.
    engine.value("refresh_rollup")
    options.setdefault("queue", name)
    metadata = options.pop("metadata", {}) | {"tags": [text], text: text}
    options["metadata"] = metadata | {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}

    def submit(state: str, **more: Any) -> None:
        payload = {text: text, "n": 1}
        made.tasks[state] = engine.submit(name, payload, **{**options, **more})

    def claim() -> Any:
        return engine.claim(1, queues=[options["queue"]], lease_seconds=3600)

    fails = {"error_type": text, "error_message": text, "error_detail": f"Traceback: {text}"}
    submit("succeeded", idempotency_key=text[:200], concurrency_key=name)
    claimed = claim()
    engine.finish(claimed, {claimed.ids[0]: {text: text}})
    submit("failed")
    engine.fail(claim(), "permanent", **fails)
    submit("dead", max_retries=0)
    engine.fail(claim(), **fails)
    submit("retrying", retry_delay_seconds=3600)
    engine.fail(claim(), **fails)
    submit("cancelled")
    engine.value("cancel_task", task_id=made.tasks["cancelled"], reason=text, actor=name)
    submit("running", timeout_seconds=3600)
    claimed = claim()
    engine.rows("report_progress", worker_id=made.worker, lease_id=claimed.lease_id,
                task_id=claimed.ids[0], share=0.4, message=text)  # fmt: skip
    engine.rows("checkpoint_task", worker_id=made.worker, lease_id=claimed.lease_id,
                task_id=claimed.ids[0], checkpoint={text: text})  # fmt: skip
    submit("scheduled", delay_seconds=36_000)
    submit("pending")
    _flow(engine, made, name, text, metadata)
    _schedule(engine, made, name, text, metadata)
    engine.value("refresh_depth")
    engine.skip(60)
    for _ in range(8):
        engine.value("refresh_rollup")
    engine.conn.execute("select set_config('skiplane.now', '', false)")
    return made


def _flow(engine: Engine, made: Scenario, name: str, text: str, metadata: dict[str, Any]) -> None:
    first = {"name": "first", "task_type": name, "payload": {text: text}, "queue": name}
    second = {**first, "name": "second", "dependencies": ["first"]}
    alarm = {**second, "name": "alarm", "trigger": "any_failed"}
    flow = engine.value(
        "submit_workflow", name=name, tasks=json.dumps([first, second, alarm]), metadata=metadata
    )
    made.workflow = uuid.UUID(flow["workflow_id"])
    made.tasks["blocked"] = uuid.UUID(flow["tasks"][1]["task_id"])


def _schedule(
    engine: Engine, made: Scenario, name: str, text: str, metadata: dict[str, Any]
) -> None:
    schedule = engine.value(
        "create_cron_task", name=name, cron_expression="0 4 * * *", task_type=name, queue=name,
        payload={text: text}, metadata=metadata,
    )  # fmt: skip
    made.schedule = uuid.UUID(schedule["cron_id"])
    engine.value("run_cron_task", cron_id=made.schedule, actor=name)
    engine.value("pause_cron_task", cron_id=made.schedule, reason=text, actor=name)
