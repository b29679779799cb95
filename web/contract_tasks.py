"""The contract of tasks."""

from typing import Any

from . import models as m
from .contract_parts import (
    CURSOR,
    ETAG,
    INSTANT,
    LIMIT,
    ONE_TASK,
    QUEUE,
    STATUS,
    STRING,
    SUBMIT_ERRORS,
    TASK_ID,
    TASKS,
    TENANT,
    TYPE,
    WORKER_ID,
    Answer,
    Operation,
    Parameter,
)

SUBMISSION: dict[str, Any] = {
    "task_type": "send_email",
    "payload": {
        "to": "user@example.com",
        "subject": "Welcome!",
        "template_id": "onboarding-v2",
    },
    "priority": "high",
    "delay_seconds": 3600,
    "max_retries": 3,
    "retry_backoff": "exponential",
    "retry_delay_seconds": 60,
    "timeout_seconds": 300,
    "idempotency_key": "welcome-user-123",
    "queue": "email-queue",
    "metadata": {"tenant_id": "acme-corp", "correlation_id": "req-abc"},
}
_ACCEPTED = {
    "task_id": TASK_ID,
    "status": "SCHEDULED",
    "scheduled_at": "2026-04-04T09:00:00Z",
    "created_at": "2026-04-03T17:21:09.812345Z",
}
_VIEW: dict[str, Any] = {
    "task_id": TASK_ID,
    "task_type": "send_email",
    "queue": "email-queue",
    "priority": "high",
    "status": "SUCCEEDED",
    "error_type": None,
    "error_message": None,
    "scheduled_at": "2026-04-04T09:00:00Z",
    "created_at": "2026-04-03T17:21:09.812345Z",
    "started_at": "2026-04-04T09:00:00.031Z",
    "completed_at": "2026-04-04T09:00:00.412Z",
    "next_attempt_at": None,
    "duration_ms": 381.0,
    "attempt": 1,
    "max_retries": 3,
    "retry_backoff": "exponential",
    "retry_delay_seconds": 60,
    "retry_max_delay_seconds": 3600,
    "retry_jitter": "equal",
    "timeout_seconds": 300,
    "idempotency_key": "welcome-user-123",
    "estimated_duration_seconds": None,
    "concurrency_key": None,
    "expires_at": None,
    "callback_url": None,
    "metadata": {"tenant_id": "acme-corp", "correlation_id": "req-abc"},
    "tenant_id": "acme-corp",
    "workflow_id": None,
    "task_name": None,
    "worker_id": WORKER_ID,
    "lease_expiry": None,
    "version": 1,
}
_WHOLE = {
    **_VIEW,
    "payload": SUBMISSION["payload"],
    "result": {"message_id": "m-1"},
    "attempts": [
        {
            "attempt": 1,
            "outcome": "succeeded",
            "worker_id": WORKER_ID,
            "started_at": "2026-04-04T09:00:00.031Z",
            "finished_at": "2026-04-04T09:00:00.412Z",
        }
    ],
    "actions": [],
    "checkpoint": None,
    "progress": None,
}
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", TASKS): Operation(
        "submit_task",
        "producer",
        "Submit a task. It is stored durably when this answers.",
        {
            202: Answer(
                "The task is stored.", m.TaskAccepted, _ACCEPTED, headers=(("Location", "Where."),)
            ),
            200: Answer(
                "The idempotency key was used before for the same body: the first task.",
                m.TaskReplayed,
                {**_ACCEPTED, "duplicate": True},
                headers=(("Idempotency-Replayed", "true"),),
            ),
        },
        body=m.TaskSubmission,
        body_examples=(SUBMISSION, {"task_type": "send_email"}),
        parameters=(
            Parameter("Idempotency-Key", STRING, "Instead of the field idempotency_key.", "header"),
            Parameter("traceparent", {"type": "string"}, "W3C trace to continue.", "header"),
        ),
        errors=SUBMIT_ERRORS,
    ),
    ("POST", TASKS + "/batch"): Operation(
        "submit_batch",
        "producer",
        "Submit up to 10,000 tasks in one transaction: all or none.",
        {
            202: Answer(
                "All tasks are stored.",
                m.BatchAccepted,
                {"tasks": [{**_ACCEPTED, "duplicate": False}]},
            )
        },
        body=m.Batch,
        body_examples=({"tasks": [{"task_type": "send_email", "payload": {"to": "a@b.c"}}]},),
        errors=SUBMIT_ERRORS,
    ),
    ("GET", TASKS): Operation(
        "list_tasks",
        "reader",
        "List tasks, newest first, without payload and result. A page looks at a bounded number"
        " of rows: with a rare filter it may be short, or empty, and still have a next one.",
        {200: Answer("One page.", m.TaskList, {"tasks": [_VIEW], "next_cursor": None})},
        parameters=(
            STATUS,
            TYPE,
            QUEUE,
            TENANT,
            Parameter("workflow_id", {"type": "string", "format": "uuid"}, "Only this workflow's."),
            Parameter("tag", STRING, "Only with this element, or key, in metadata.tags."),
            Parameter("created_after", INSTANT, "Submitted at this instant or later."),
            Parameter("created_before", INSTANT, "Submitted before this instant."),
            LIMIT,
            CURSOR,
        ),
    ),
    ("GET", ONE_TASK): Operation(
        "get_task",
        "reader",
        "Read a task with its attempts, its result and what was done to it.",
        {200: Answer("The task.", m.TaskView, _WHOLE, headers=(ETAG,))},
        errors=("not_found",),
    ),
    ("PUT", ONE_TASK): Operation(
        "edit_task",
        "producer",
        "Change a task that has not started. If-Match names the version that you saw, so that two"
        " editors cannot overwrite each other.",
        {200: Answer("The task after the edit.", m.TaskView, _WHOLE, headers=(ETAG,))},
        body=m.TaskEdit,
        body_examples=({"priority": "low", "delay_seconds": 600},),
        parameters=(
            Parameter("If-Match", {"type": "string"}, "ETag of the task.", "header", True),
        ),
        errors=("not_found", "conflict", "stale_version", "precondition_required"),
    ),
    ("POST", ONE_TASK + "/cancel"): Operation(
        "cancel_task",
        "producer",
        "Cancel a task that has not ended; a running one is stopped.",
        {
            200: Answer(
                "It is cancelled.",
                m.TaskCancelled,
                {
                    "task_id": TASK_ID,
                    "status": "CANCELLED",
                    "cancelled_at": "2026-04-03T18:00:00Z",
                },
            )
        },
        body=m.Why,
        body_required=False,
        body_examples=({"reason": "sent by hand"},),
        errors=("not_found", "conflict"),
    ),
    ("DELETE", ONE_TASK): Operation(
        "delete_task",
        "producer",
        "The same as cancel; the history stays.",
        {
            200: Answer(
                "It is cancelled.",
                m.TaskCancelled,
                {
                    "task_id": TASK_ID,
                    "status": "CANCELLED",
                    "cancelled_at": "2026-04-03T18:00:00Z",
                },
            )
        },
        errors=("not_found", "conflict"),
    ),
    ("POST", ONE_TASK + "/retry"): Operation(
        "retry_task",
        "operator",
        "Run a FAILED, DEAD or CANCELLED task again, with a fresh budget of retries.",
        {200: Answer("It waits to run.", m.TaskRetried, {"task_id": TASK_ID, "status": "PENDING"})},
        body=m.Why,
        body_required=False,
        body_examples=({"reason": "the mail server is back"},),
        errors=("not_found", "conflict"),
    ),
    ("GET", ONE_TASK + "/result"): Operation(
        "get_result",
        "reader",
        "Read the result, waiting for it up to `wait` seconds.",
        {
            200: Answer(
                "It has ended.",
                m.ResultView,
                {
                    "task_id": TASK_ID,
                    "status": "SUCCEEDED",
                    "done": True,
                    "result": {"message_id": "m-1"},
                    "error_type": None,
                    "error_message": None,
                },
            ),
            202: Answer(
                "It has not ended yet: ask again.",
                m.ResultView,
                {
                    "task_id": TASK_ID,
                    "status": "RUNNING",
                    "done": False,
                    "result": None,
                    "error_type": None,
                    "error_message": None,
                },
            ),
        },
        parameters=(
            Parameter(
                "wait",
                {"type": "integer", "minimum": 0, "maximum": 60, "default": 0},
                "Longest wait in seconds.",
            ),
        ),
        errors=("not_found",),
    ),
}
