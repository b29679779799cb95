"""``skiplane.webhook``: deliver one event, signed as Standard Webhooks has it.

The engine alone makes these tasks. The signature is HMAC-SHA256 over
``<webhook-id>.<webhook-timestamp>.<body>``; see https://www.standardwebhooks.com.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ...schema.pools import AsyncPool
from ...schema.webhook_calls import webhook_target
from ..context import Context
from .client import Client, Request
from .web import judge

SECONDS = 15.0
_MOST_BYTES = 4096
# A receiver that is being set up, or moved, answers with any status; only "gone"
# is meant.
_GONE = 410
_RETRIED = tuple(status for status in range(300, 500) if status != _GONE)


class Deliver:
    """Delivers events for one worker."""

    def __init__(self, client: Callable[[], Client], pool: Callable[[], AsyncPool]) -> None:
        self._client = client
        self._pool = pool

    async def run(
        self,
        ctx: Context,
        event: dict[str, Any],
        webhook_id: str | None = None,
        url: str | None = None,
    ) -> dict[str, Any]:
        """Send an event to its webhook or callback_url.

        Raises:
            Retry: The receiver did not take it, or cannot be reached.
            PermanentError: It says that it is gone (410), or may not be called.
        """
        async with self._pool().connection() as conn:
            target = await webhook_target(conn, ctx.task_id)
        if target.url is None or target.secret is None:
            return {"delivered": False, "reason": "the webhook was deleted"}
        body = msgspec.json.encode(event)
        # The receiver judges the age of this try, so it is the time of this host.
        at = int(time.time())
        headers = {
            "user-agent": "skiplane",
            "content-type": "application/json",
            "webhook-id": ctx.task_id,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(target.secret, ctx.task_id, at, body),
        }
        if isinstance(traceparent := ctx.metadata.get("traceparent"), str):
            headers["traceparent"] = traceparent
        sent = [
            (name.encode(), value.encode("ascii", "replace")) for name, value in headers.items()
        ]
        reply = await self._client().send(
            Request("POST", target.url, sent, body), SECONDS, _MOST_BYTES
        )
        judge(reply, retried=_RETRIED)
        return {"delivered": True, "status": reply.status}


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Give the signature of a delivery.

    Args:
        secret: ``whsec_`` and the key in base64.
        message_id: The header webhook-id.
        timestamp: The header webhook-timestamp.
        body: The body, byte for byte.
    """
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
