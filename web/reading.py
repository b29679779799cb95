"""From a request to submissions: aliases, the caller's tenant, its trace, its key."""

import re
from typing import Any

import msgspec
from litestar import Request
from msgspec import UNSET, UnsetType

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
        payload = b"{}"
        if task.payload is not UNSET:
            payload = bytes(task.payload)
            storable(payload, f"{where}payload", MAX_PAYLOAD)
        given = bound_metadata(task.metadata, self._bound, f"{where}metadata")
        tenant = given.get("tenant_id", DEFAULT_TENANT)
        merged = {**self._trace, **given}
        metadata = _encode(merged) if merged else None
        key = task.idempotency_key or None
        _merge_duration(task, where)
        check_times(task, where)
        task.payload = task.metadata = task.idempotency_key = UNSET
        return Submission(_encode(task), tenant, payload, metadata, key)


def bound_metadata(raw: msgspec.Raw | UnsetType, bound: str | None, where: str = "metadata") -> Any:
    """Check metadata and put the tenant of a bound key in.

    Raises:
        Problem: It is no object, names no usable tenant, or not the key's.
    """
    value = {} if raw is UNSET else storable(bytes(raw), where, MAX_METADATA)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise invalid("metadata is no object.", where, shown(value), "Give a JSON object.")
    tenant = value.get("tenant_id", bound)
    if "tenant_id" in value and not isinstance(tenant, str):
        raise invalid(
            "tenant_id is not text.", f"{where}.tenant_id", shown(tenant), "Give a name as text."
        )
    if bound is not None and tenant != bound:
        raise Problem(
            "not_allowed",
            "The key is bound to another tenant.",
            f"{where}.tenant_id",
            str(tenant)[:200],
            "Leave tenant_id out; it is the key's.",
        )
    return {**value, "tenant_id": bound} if bound is not None else value


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
