"""From a request to submissions: aliases, the caller's tenant, its trace, its key."""

import re
from typing import Any

import msgspec
from litestar import Request
from msgspec import UNSET

from ..schema.encode import shown
from .access import Principal
from .body import MAX_METADATA, MAX_PAYLOAD, storable
from .models import Options, TaskSubmission
from .problems import Problem, invalid
from .submissions import Submission

DEFAULT_TENANT = "default"
# W3C Trace Context, section 3.2: version 00, no id of zeros only.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}.*"
)
_encode = msgspec.json.Encoder().encode


class Reader:
    """Reads the tasks of one request."""

    def __init__(self, request: "Request[Any, Any, Any]", principal: Principal) -> None:
        """Note what the request says for all of its tasks."""
        self._bound = principal.tenant
        self._trace = trace_context(request)

    def submission(self, task: TaskSubmission, where: str = "") -> Submission:
        """Check one task.

        Args:
            task: As decoded; it is used up.
            where: What stands before its fields' names in errors, such as ``tasks[3].``.
        """
        payload, metadata = b"{}", None
        if task.payload is not UNSET:
            payload = bytes(task.payload)
            storable(payload, f"{where}payload", MAX_PAYLOAD)
        tenant = self._bound or DEFAULT_TENANT
        given: dict[str, Any] = {}
        if task.metadata is not UNSET:
            given = self._metadata(bytes(task.metadata), f"{where}metadata")
            tenant = self._tenant(given, f"{where}metadata.tenant_id")
        merged = {**self._trace, **given}
        if self._bound or given.get("tenant_id"):
            merged["tenant_id"] = tenant
        if merged:
            metadata = _encode(merged)
        key = task.idempotency_key or None
        _merge_duration(task, where)
        check_times(task, where)
        task.payload = task.metadata = task.idempotency_key = UNSET
        return Submission(_encode(task), tenant, payload, metadata, key)

    def _metadata(self, raw: bytes, where: str) -> dict[str, Any]:
        value = storable(raw, where, MAX_METADATA)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise invalid("metadata is no object.", where, shown(value), "Give a JSON object.")
        return value

    def _tenant(self, metadata: dict[str, Any], where: str) -> str:
        tenant = metadata.get("tenant_id", self._bound or DEFAULT_TENANT)
        if not isinstance(tenant, str):
            raise invalid("tenant_id is not text.", where, shown(tenant), "Give a name as text.")
        if self._bound is not None and tenant != self._bound:
            raise Problem(
                "not_allowed",
                "The key is bound to another tenant.",
                where,
                tenant[:200],
                "Leave tenant_id out; it is the key's.",
            )
        return tenant


def trace_context(request: "Request[Any, Any, Any]") -> dict[str, str]:
    """Give the caller's trace, for the metadata of its tasks; what is no trace is left out."""
    parent = request.headers.get("traceparent", "").strip()
    if not _TRACEPARENT.fullmatch(parent) or len(parent) > 200:
        return {}
    state = request.headers.get("tracestate", "").strip()
    if state and len(state) <= 512 and state.isprintable():
        return {"traceparent": parent, "tracestate": state}
    return {"traceparent": parent}


def _merge_duration(task: TaskSubmission, where: str) -> None:
    if task.task_duration is UNSET:
        return
    if task.estimated_duration_seconds is not UNSET:
        raise invalid(
            "task_duration and estimated_duration_seconds are one option.",
            f"{where}task_duration",
            task.task_duration,
            "Give one of them.",
        )
    task.estimated_duration_seconds, task.task_duration = task.task_duration, UNSET


def check_times(options: Options, where: str) -> None:
    """Refuse two ways of saying when."""
    if options.scheduled_at and options.delay_seconds not in (UNSET, None):
        raise invalid(
            "scheduled_at and delay_seconds are both given.",
            f"{where}delay_seconds",
            options.delay_seconds,
            "Give only one of the two.",
        )


def header_key(request: "Request[Any, Any, Any]", task: TaskSubmission) -> None:
    """Take the Idempotency-Key header as the body's field."""
    found = request.headers.get("idempotency-key")
    if found is None:
        return
    # The IETF draft has a quoted string, practice the bare text.
    text = found[1:-1] if len(found) > 1 and found[0] == found[-1] == '"' else found
    if not text or len(text) > 200:
        raise invalid(
            "Idempotency-Key is empty or longer than 200 characters.",
            "Idempotency-Key",
            found[:200],
            "Give a name of the request, such as a UUID.",
        )
    if task.idempotency_key not in (UNSET, None, text):
        raise invalid(
            "The header Idempotency-Key and the field idempotency_key differ.",
            "Idempotency-Key",
            found[:200],
            "Give one of them.",
        )
    task.idempotency_key = text
