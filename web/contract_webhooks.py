"""The contract of webhooks."""

from typing import Any

from . import models_webhooks as m
from .contract_parts import CURSOR, LIMIT, TASK_ID, WEBHOOKS, Answer, Operation

_WEBHOOK: dict[str, Any] = {
    "webhook_id": "0190b6c8-5d6e-4f8a-9c8e-2b1f0a9d7c66",
    "name": "billing",
    "url": "https://billing.example.com/hooks",
    "events": ["task.failed", "task.dead"],
    "tenant_id": "acme-corp",
    "task_type": "charge_card",
    "queue": None,
    "delivery_queue": None,
    "enabled": True,
    "created_at": "2026-04-03T17:00:00Z",
    "created_by": "api:sk_00c0ffee",
}
_ONE = WEBHOOKS + "/{webhook_id}"

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", WEBHOOKS): Operation(
        "create_webhook",
        "operator",
        "Tell a URL of ends of tasks and workflows, and of alerts. The answer holds the key of the"
        " signatures, this once.",
        {
            201: Answer(
                "The webhook.",
                m.WebhookMade,
                {**_WEBHOOK, "secret": "whsec_bm90LWEtcmVhbC1rZXktbm90LWEtcmVhbC1rZXk="},
            )
        },
        body=m.WebhookRequest,
        body_examples=(
            {
                "name": "billing",
                "url": "https://billing.example.com/hooks",
                "events": ["task.failed", "task.dead"],
                "task_type": "charge_card",
            },
        ),
    ),
    ("GET", WEBHOOKS): Operation(
        "list_webhooks",
        "operator",
        "List webhooks, newest first, without their secrets.",
        {200: Answer("One page.", m.WebhookList, {"webhooks": [_WEBHOOK], "next_cursor": None})},
        parameters=(LIMIT, CURSOR),
    ),
    ("DELETE", _ONE): Operation(
        "delete_webhook",
        "operator",
        "End a webhook. What waits for delivery is not sent any more.",
        {200: Answer("It is gone.", m.WebhookView, _WEBHOOK)},
        errors=("not_found",),
    ),
    ("POST", _ONE + "/enable"): Operation(
        "enable_webhook",
        "operator",
        "Tell a webhook of events again.",
        {200: Answer("It is on.", m.WebhookView, _WEBHOOK)},
        errors=("not_found",),
    ),
    ("POST", _ONE + "/disable"): Operation(
        "disable_webhook",
        "operator",
        "Tell a webhook nothing for now; what was made before is still delivered.",
        {200: Answer("It is off.", m.WebhookView, {**_WEBHOOK, "enabled": False})},
        errors=("not_found",),
    ),
    ("POST", _ONE + "/test"): Operation(
        "test_webhook",
        "operator",
        "Send a test event; the task tells what became of it.",
        {202: Answer("It is on its way.", m.TestSent, {"task_id": TASK_ID})},
        errors=("not_found",),
    ),
}
