"""The contract of schedules and workflows."""

from typing import Any

from . import models as m
from . import models_flows as f
from .contract_parts import (
    CRON,
    CURSOR,
    ETAG,
    FLOWS,
    INSTANT,
    LIMIT,
    ONE_CRON,
    ONE_FLOW,
    STRING,
    SUBMIT_ERRORS,
    TASK_ID,
    TENANT,
    TYPE,
    Answer,
    Operation,
    Parameter,
)

MADE = {
    "cron_id": TASK_ID,
    "name": "daily-report-generation",
    "next_fire_time": "2026-04-06T13:00:00Z",
    "status": "ACTIVE",
}
SCHEDULE: dict[str, Any] = {
    "name": "daily-report-generation",
    "cron_expression": "0 9 * * 1-5",
    "timezone": "America/New_York",
    "task_type": "generate_report",
    "payload": {"report": "sales"},
    "max_retries": 2,
    "timeout_seconds": 600,
    "overlap_policy": "skip",
    "enabled": True,
}
_SCHEDULE_VIEW = {
    **MADE,
    "cron_expression": "0 9 * * 1-5",
    "timezone": "America/New_York",
    "task_type": "generate_report",
    "payload": {"report": "sales"},
    "reason": None,
    "enabled": True,
    "last_fire_time": None,
    "last_fired_at": None,
    "last_task_id": None,
    "queued": 0,
    "overlap_policy": "skip",
    "missed_policy": "once",
    "missed_limit": 10,
    "jitter_seconds": 0,
    "start_at": None,
    "end_at": None,
    "queue": "default",
    "priority": "medium",
    "max_retries": 2,
    "metadata": None,
    "tenant_id": "default",
    "owner": None,
    "version": 1,
    "created_at": "2026-04-03T17:21:09.812345Z",
}
WORKFLOW: dict[str, Any] = {
    "workflow_name": "user-onboarding",
    "tasks": [
        {
            "task_id": "create-account",
            "task_type": "create_account",
            "payload": {"email": "user@example.com"},
            "dependencies": [],
        },
        {
            "task_id": "send-welcome-email",
            "task_type": "send_email",
            "payload": {"template_id": "onboarding-v2"},
            "dependencies": ["create-account"],
        },
    ],
}
_FLOW = {
    "workflow_id": TASK_ID,
    "workflow_name": "user-onboarding",
    "status": "RUNNING",
    "tenant_id": "default",
    "task_count": 2,
    "pending": 2,
    "created_at": "2026-04-03T17:21:09.812345Z",
    "completed_at": None,
}
_CHANGED = {"workflow_id": TASK_ID, "status": "CANCELLED"}


def _schedule_verb(name: str, role: str, text: str, *errors: str) -> Operation:
    return Operation(
        name,
        role,
        text,
        {200: Answer("The schedule.", f.ScheduleView, _SCHEDULE_VIEW, headers=(ETAG,))},
        errors=("not_found", *errors),
    )


OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", CRON): Operation(
        "create_cron_task",
        "producer",
        "Make a schedule. One that can never fire, or in an unknown zone, is refused.",
        {201: Answer("It is stored.", f.ScheduleMade, MADE, headers=(("Location", "Where."),))},
        body=f.ScheduleRequest,
        body_examples=(SCHEDULE,),
        errors=("conflict",),
    ),
    ("GET", CRON): Operation(
        "list_cron_tasks",
        "reader",
        "List schedules, newest first.",
        {
            200: Answer(
                "One page.", f.ScheduleList, {"cron_tasks": [_SCHEDULE_VIEW], "next_cursor": None}
            )
        },
        parameters=(
            Parameter(
                "status",
                {"type": "string", "enum": ["ACTIVE", "PAUSED", "INVALID", "ENDED"]},
                "Only this state.",
            ),
            TYPE,
            TENANT,
            LIMIT,
            CURSOR,
        ),
    ),
    ("GET", ONE_CRON): _schedule_verb("get_cron_task", "reader", "Read a schedule."),
    ("PUT", ONE_CRON): Operation(
        "edit_cron_task",
        "producer",
        "Change a schedule; If-Match names the version that you saw.",
        {200: Answer("The schedule.", f.ScheduleView, _SCHEDULE_VIEW, headers=(ETAG,))},
        body=f.ScheduleEdit,
        body_examples=({"cron_expression": "30 9 * * 1-5"},),
        parameters=(
            Parameter("If-Match", {"type": "string"}, "ETag of the schedule.", "header", True),
        ),
        errors=("not_found", "conflict", "stale_version", "precondition_required"),
    ),
    ("DELETE", ONE_CRON): _schedule_verb(
        "delete_cron_task", "producer", "Delete a schedule; tells what it was."
    ),
    ("POST", ONE_CRON + "/pause"): _schedule_verb(
        "pause_cron_task", "producer", "Stop a schedule from firing.", "conflict"
    ),
    ("POST", ONE_CRON + "/resume"): _schedule_verb(
        "resume_cron_task", "producer", "Let a schedule fire again.", "conflict"
    ),
    ("POST", ONE_CRON + "/run"): Operation(
        "run_cron_task",
        "producer",
        "Submit the schedule's task now; its next fire stays where it is.",
        {
            202: Answer(
                "The task is stored.", m.TaskRetried, {"task_id": TASK_ID, "status": "PENDING"}
            )
        },
        errors=("not_found", "conflict"),
    ),
    ("GET", ONE_CRON + "/preview"): Operation(
        "preview_cron_task",
        "reader",
        "The next fire times, by the same computation that fires.",
        {
            200: Answer(
                "The times.",
                f.Fires,
                {"cron_id": TASK_ID, "fire_times": ["2026-04-06T13:00:00Z"]},
            )
        },
        parameters=(
            Parameter(
                "count",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
                "How many.",
            ),
        ),
        errors=("not_found",),
    ),
    ("POST", FLOWS): Operation(
        "submit_workflow",
        "producer",
        "Submit a workflow of up to 10,000 tasks, all or none. A cycle, an unknown or a repeated"
        " name is refused.",
        {
            202: Answer(
                "It is stored.",
                f.WorkflowAccepted,
                {
                    "workflow_id": TASK_ID,
                    "status": "RUNNING",
                    "tasks": {"create-account": "PENDING", "send-welcome-email": "BLOCKED"},
                },
                headers=(("Location", "Where."),),
            ),
            200: Answer(
                "The idempotency key was used before for the same workflow: the first one.",
                f.WorkflowAccepted,
                {"workflow_id": TASK_ID, "status": "RUNNING", "tasks": {"a": "PENDING"}},
                headers=(("Idempotency-Replayed", "true"),),
            ),
        },
        body=f.WorkflowRequest,
        body_examples=(WORKFLOW,),
        errors=SUBMIT_ERRORS,
    ),
    ("GET", FLOWS): Operation(
        "list_workflows",
        "reader",
        "List workflows, newest first.",
        {200: Answer("One page.", f.WorkflowList, {"workflows": [_FLOW], "next_cursor": None})},
        parameters=(
            Parameter("status", {"type": "string"}, "Only these states, by commas."),
            Parameter("workflow_name", STRING, "Only this name."),
            TENANT,
            Parameter("created_after", INSTANT, "Submitted at this instant or later."),
            Parameter("created_before", INSTANT, "Submitted before this instant."),
            LIMIT,
            CURSOR,
        ),
    ),
    ("GET", ONE_FLOW): Operation(
        "get_workflow",
        "reader",
        "Read a workflow, with how many of its tasks are in which state.",
        {
            200: Answer(
                "The workflow.",
                f.WorkflowView,
                {
                    **_FLOW,
                    "tasks": {"PENDING": 1, "BLOCKED": 1},
                    "dag_definition": [],
                    "actions": [],
                },
            )
        },
        errors=("not_found",),
    ),
    ("GET", ONE_FLOW + "/graph"): Operation(
        "workflow_graph",
        "reader",
        "Read a workflow's picture: nodes with states and times, and edges.",
        {200: Answer("The picture.", f.WorkflowPicture, {**_FLOW, "nodes": [], "edges": []})},
        errors=("not_found",),
    ),
    ("POST", ONE_FLOW + "/cancel"): Operation(
        "cancel_workflow",
        "producer",
        "Cancel all tasks of a workflow that have not ended.",
        {200: Answer("It is cancelled.", f.WorkflowChanged, _CHANGED)},
        body=m.Why,
        body_required=False,
        errors=("not_found", "conflict"),
    ),
    ("POST", ONE_FLOW + "/retry"): Operation(
        "retry_workflow",
        "operator",
        "Run again what failed in a workflow, and what did not run because of it.",
        {200: Answer("It runs.", f.WorkflowChanged, {**_CHANGED, "status": "RUNNING"})},
        body=m.Why,
        body_required=False,
        errors=("not_found", "conflict"),
    ),
}
