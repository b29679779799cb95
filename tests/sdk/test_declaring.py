"""Declaring tasks: names, shapes, checks of arguments."""

import pickle
from datetime import datetime
from typing import Annotated, Any

import msgspec
import pytest

from skiplane import Context, InvalidInput, Skiplane, SyncContext

app = Skiplane("dbname=nowhere")


class Address(msgspec.Struct):
    street: str


@app.task("send_email", queue="email", max_retries=3, timeout=300, permanent_errors=(ValueError,))
async def send_email(ctx: Context, to: str, template_id: str = "welcome") -> str:
    """Send one."""
    return f"{to}: {template_id}"


@app.task()
def report(day: str, /, *, pages: int = 1) -> None: ...


@app.task("anything", mode="thread")
def anything(context: SyncContext, /, **fields: Any) -> dict[str, Any]:
    return fields


@app.task("typed")
async def typed(
    when: datetime, to: Address, share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
) -> None: ...


def test_a_task_is_still_its_function() -> None:
    assert send_email.__name__ == "send_email"
    assert send_email.__doc__ == "Send one."


async def test_calling_a_task_runs_it_here() -> None:
    assert await send_email(None, "a@example.com") == "a@example.com: welcome"


def test_the_registry_knows_what_a_worker_needs() -> None:
    definition = app.registry.get("send_email")
    assert definition is not None
    assert definition.mode == "async"
    assert definition.takes_context
    assert definition.queue == "email"
    assert definition.options == {"max_retries": 3, "timeout_seconds": 300.0}
    assert definition.permanent_errors == (ValueError,)


def test_a_task_without_a_name_is_called_by_its_place() -> None:
    assert report.name == f"{__name__}.report"


def test_a_plain_function_runs_in_a_process_unless_it_says_thread() -> None:
    assert report.definition.mode == "process"
    assert anything.definition.mode == "thread"


def test_a_context_is_known_by_its_type_or_its_name() -> None:
    assert anything.definition.takes_context
    assert not report.definition.takes_context


def test_a_task_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(send_email)) is send_email


def test_options_leave_the_task_as_it_was() -> None:
    before = dict(send_email._options)
    other = send_email.options(delay=60, queue="other")
    assert other._options == {**before, "queue": "other", "delay_seconds": 60.0}
    without = other.options(timeout=None)
    assert without._options == {"queue": "other", "max_retries": 3, "delay_seconds": 60.0}
    assert send_email._options == before


def test_arguments_become_an_object_by_name() -> None:
    assert send_email.payload("a@example.com") == b'{"to":"a@example.com"}'
    assert report.payload("monday", pages=2) == b'{"day":"monday","pages":2}'
    assert anything.payload(a=1) == b'{"a":1}'


@pytest.mark.parametrize(
    ("args", "kwargs", "field", "says"),
    [
        ((), {}, "to", "missing required field `to`"),
        ((5,), {}, "to", "Expected `str`, got `int`"),
        (("a",), {"cc": "b"}, "cc", "unknown field `cc`"),
        (("a", "b", "c"), {}, None, "takes 2 positional arguments, not 3"),
        (("a",), {"to": "b"}, "to", "given twice"),
        (("a\x00",), {}, "to", "NUL"),
        ((float("nan"),), {}, "to", "nan"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    args: tuple[Any, ...], kwargs: dict[str, Any], field: str | None, says: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        send_email.payload(*args, **kwargs)
    assert refusal.value.field == field
    assert says in str(refusal.value)
    assert refusal.value.remedy


def test_the_remedy_shows_the_function() -> None:
    with pytest.raises(InvalidInput, match=r"send_email\(to: str, template_id: str = 'welcome'\)"):
        send_email.payload()  # type: ignore[call-arg]


def test_values_are_checked_inside_structs_and_bounds() -> None:
    when = datetime.fromisoformat("2026-07-01T09:00:00Z")
    assert typed.payload(when, Address("a"))
    with pytest.raises(InvalidInput) as refusal:
        typed.payload(when, Address(5))  # type: ignore[arg-type]
    assert refusal.value.field == "to.street"
    with pytest.raises(InvalidInput) as refusal:
        typed.payload(when, Address("a"), share=2.0)
    assert (refusal.value.field, refusal.value.value) == ("share", "2.0")


def test_a_name_taken_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="defined twice"):

        @app.task("send_email")
        async def again() -> None: ...


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="rate"):
        app.task("x", rate="100/s")  # type: ignore[call-arg]


def test_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(InvalidInput, match="parentheses"):
        app.task(print)  # type: ignore[arg-type]


def test_functions_that_cannot_be_tasks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="connection"):

        @app.task("a")
        async def a(connection: str) -> None: ...

    with pytest.raises(InvalidInput, match="generator"):

        @app.task("b")
        def b() -> Any:
            yield 1

    with pytest.raises(InvalidInput, match="event loop"):

        @app.task("c", mode="process")
        async def c() -> None: ...

    with pytest.raises(InvalidInput, match="carry"):

        @app.task("d")
        def d(*numbers: int) -> None: ...

    with pytest.raises(InvalidInput, match="mode"):

        @app.task("e", mode="fibre")  # type: ignore[arg-type]
        def e() -> None: ...

    assert not {"a", "b", "c", "d", "e"} & set(app.registry.names())


async def test_a_wrong_argument_is_found_before_the_database_is_needed() -> None:
    with pytest.raises(InvalidInput, match="to"):
        await send_email.submit(5)  # type: ignore[call-overload]


def test_a_batch_names_the_item_at_fault() -> None:
    items = iter([{"to": "a"}, {"to": 7}])
    with pytest.raises(InvalidInput) as refusal:
        list(send_email._documents(items))
    assert refusal.value.field == "items[1].to"
