"""What entries of the contract are made of, and what several of them share."""

from typing import Any, NamedTuple

TASK_ID = "01a22fd0-9705-73ef-8000-0b77a7d523f5"
WORKER_ID = "6f0c7a52-8f4a-4b6c-9a57-0a3c8f0f4f11"


class Parameter(NamedTuple):
    """One parameter of the query or a header."""

    name: str
    schema: dict[str, Any]
    text: str
    place: str = "query"
    required: bool = False


class Answer(NamedTuple):
    """One answer: its shape (None: no JSON), and headers that come with it."""

    text: str
    shape: Any = None
    example: Any = None
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Operation(NamedTuple):
    """One route.

    Attributes:
        role: Least role of the key; ``open`` needs none.
        fleet: It concerns all tenants: keys bound to one are refused.
        other_body: What the body may be instead, when a parameter says so.
        errors: Codes of problems beside those that every route has.
    """

    name: str
    role: str
    text: str
    answers: dict[int, Answer]
    body: Any = None
    other_body: Any = None
    body_required: bool = True
    body_examples: tuple[Any, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[str, ...] = ()
    fleet: bool = False


STRING: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
INSTANT: dict[str, Any] = {"type": "string", "format": "date-time"}
LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    "Most rows of the page.",
)
CURSOR = Parameter(
    "cursor",
    {"type": "string", "maxLength": 1000, "minLength": 1},
    "next_cursor of the page before, with the same filters.",
)
QUEUE = Parameter("queue", STRING, "Only this queue.")
TYPE = Parameter("task_type", STRING, "Only this type.")
TENANT = Parameter("tenant_id", STRING, "Only this tenant.")

ETAG = ("ETag", "The version, for If-Match of an edit.")
SUBMIT_ERRORS = ("rate_limited", "queue_full", "idempotency_conflict", "in_progress")

TASKS = "/api/v1/tasks"
ONE_TASK = TASKS + "/{task_id}"
DLQ = "/api/v1/dlq"
CRON = "/api/v1/cron-tasks"
ONE_CRON = CRON + "/{cron_id}"
FLOWS = "/api/v1/workflows"
ONE_FLOW = FLOWS + "/{workflow_id}"
QUEUES = "/api/v1/queues"
ONE_QUEUE = QUEUES + "/{queue}"
TYPES = "/api/v1/task-types"
ONE_TYPE = TYPES + "/{task_type}"
TENANTS = "/api/v1/tenants"
WEBHOOKS = "/api/v1/webhooks"
ONE_TENANT = TENANTS + "/{tenant_id}"
STATUS = Parameter(
    "status",
    {"type": "string", "examples": ["PENDING,RUNNING"]},
    "Only these states; repeat it, or separate them by commas.",
)
