"""Tasks: a list with filters."""

from typing import Any
from uuid import UUID

from litestar.response.base import ASGIResponse

from ....schema.encode import decode_json
from ....schema.web_calls import list_page
from ...cursors import read_cursor, write_cursor
from ...problems import invalid
from ..render import page, redirect
from ..shows import AnyRequest, asked, instant, principal, services, shows
from ..states import STATES
from ..words import query

PAGE = 50
_TEXTS = ("task_type", "queue", "tenant_id", "tag")
_NAMES = (*_TEXTS, "status", "workflow_id", "created_after", "created_before")


@shows("/ui/tasks")
async def list_tasks(request: AnyRequest) -> ASGIResponse:
    """Show a page of tasks."""
    who = principal(request)
    values = asked(request, (*_NAMES, "cursor"))
    given = values.pop("cursor")
    if values["status"] and values["status"] not in STATES:
        raise invalid("status is no state.", "status", values["status"], "Choose one of the list.")
    filters: dict[str, Any] = {name: values[name] for name in _TEXTS}
    filters["status"] = [values["status"]] if values["status"] else None
    filters["workflow_id"] = _uuid(values["workflow_id"])
    for name in ("created_after", "created_before"):
        filters[name] = instant(values, name)
    scope = ("ui-tasks", who.tenant, values)
    cursor = read_cursor(given, *scope)
    found = await services(request).database.run(list_page(who.tenant, PAGE, cursor, **filters))
    return page(
        request,
        "tasks.html",
        tasks=[decode_json(one) for one in found.documents],
        values=values,
        filtered=any(values.values()),
        first=cursor is None,
        next=write_cursor(found.next_cursor, *scope),
        states=STATES,
    )


def _uuid(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise invalid("workflow_id is no UUID.", "workflow_id", text, "Give an id.") from None


@shows("/ui/search")
async def search(request: AnyRequest) -> ASGIResponse:
    """Go to the task of an id; anything else is taken for a type of tasks."""
    text = asked(request, ["q"])["q"]
    if text is None:
        return redirect("/ui/tasks")
    try:
        return redirect(f"/ui/tasks/{UUID(text)}")
    except ValueError:
        return redirect("/ui/tasks" + query(task_type=text))


HANDLERS = [list_tasks, search]
