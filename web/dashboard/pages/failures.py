"""Failure analytics: which types fail, with which errors, since when."""

from datetime import datetime
from typing import Any

from litestar.response.base import ASGIResponse

from ....schema import dashboard_calls as calls
from ...problems import invalid
from ..charts import Series, bars
from ..render import page
from ..shows import AnyRequest, asked, principal, services, shows

SPANS = {"1h": 3600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}
_FILTERS = ("task_type", "queue", "tenant_id", "fingerprint")


@shows("/ui/failures")
async def failures(request: AnyRequest) -> ASGIResponse:
    """Show what failed."""
    who = principal(request)
    values = asked(request, (*_FILTERS, "span"))
    span = values.pop("span") or "24h"
    if span not in SPANS:
        raise invalid("span is unknown.", "span", span, f"Give one of {', '.join(SPANS)}.")
    found = await services(request).database.run(
        calls.failure_analytics(who.tenant, SPANS[span], values)
    )
    return page(
        request,
        "failures.html",
        found=found,
        chart=_chart(found, SPANS[span]),
        types=[_rated(one) for one in found["types"]],
        values=values,
        filtered=any(values.values()),
        span=span,
        spans=list(SPANS),
    )


def _rated(one: dict[str, Any]) -> dict[str, Any]:
    ended = one["succeeded"] + one["failed"] + one["dead"]
    attempts = ended + one["retried"]
    return {
        **one,
        "error_rate": (one["failed"] + one["dead"]) / ended if ended else None,
        "retry_rate": one["retried"] / attempts if attempts else None,
    }


def _chart(found: dict[str, Any], seconds: int) -> Any:
    step = int(found["step_seconds"])
    known = {
        int(datetime.fromisoformat(one["at"]).timestamp()): one["errors"]
        for one in found["over_time"]
    }
    last = max(known, default=0)
    if not last:
        return bars("Failed attempts", [], [])
    first = last - seconds // step * step + step
    times = list(range(first, last + 1, step))
    return bars(
        "Failed attempts", times, [Series("failed", "b-bad", [known.get(t, 0) for t in times])]
    )


HANDLERS = [failures]
