"""skiplane.http: what is sent, what is a success, what is tried again, and where it may go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from skiplane.schema.errors import PermanentError, Retry
from skiplane.tests.builtin.receiver import Answer, Received, Receiver
from skiplane.worker.builtin.client import AddressRefused, Client
from skiplane.worker.builtin.networks import parse_networks
from skiplane.worker.builtin.web import MOST_BYTES, Http
from skiplane.worker.context import Context

CONTEXT = cast(Context, SimpleNamespace(task_id="the-task"))


@pytest_asyncio.fixture
async def call() -> AsyncIterator[Callable[..., Any]]:
    """Calls a URL, with 127.0.0.1 allowed."""
    client = Client(parse_networks("127.0.0.1"))
    http = Http(lambda: client)
    yield lambda url, **options: http.run(CONTEXT, url, **options)
    await client.close()


def answers(receiver: Receiver, *answers: Answer) -> None:
    left = list(answers)
    receiver.answer = lambda request: left.pop(0) if len(left) > 1 else left[0]


async def test_json_goes_out_and_comes_back(call: Callable[..., Any], receiver: Receiver):
    answers(receiver, Answer(201, {"content-type": "application/json"}, b'{"ok": true}'))
    result = await call(
        f"{receiver.url}/a b?q=ü", method="POST", json={"n": 1}, headers={"X-Mine": "yes"}
    )
    assert (result["status"], result["body"], result["truncated"]) == (201, {"ok": True}, False)
    [request] = receiver.received
    assert (request.method, request.path) == ("POST", "/a%20b?q=%C3%BC")
    assert request.body == b'{"n":1}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-mine"] == "yes"
    assert request.headers["idempotency-key"] == "the-task"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_passing_trouble_is_retried(
    call: Callable[..., Any], receiver: Receiver, status: int
):
    answers(receiver, Answer(status, {"retry-after": "17"}))
    with pytest.raises(Retry) as caught:
        await call(receiver.url)
    assert caught.value.after == 17


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422])
async def test_other_4xx_are_permanent(call: Callable[..., Any], receiver: Receiver, status: int):
    answers(receiver, Answer(status, body=b"no such thing"))
    with pytest.raises(PermanentError, match=f"{status}: no such thing"):
        await call(receiver.url)


async def test_a_date_to_retry_after_is_told_by_the_senders_clock(
    call: Callable[..., Any], receiver: Receiver
):

    later = {"retry-after": "Wed, 21 Oct 2015 07:30:00 GMT"}
    receiver.answer = lambda request: Answer(503, later)
    with pytest.raises(Retry) as caught:
        await call(receiver.url)
    assert caught.value.after == 0  # the receiver's Date is long past that
    far = {"retry-after": "Fri, 31 Dec 2999 23:59:59 GMT"}
    receiver.answer = lambda request: Answer(503, far)
    with pytest.raises(Retry) as caught:
        await call(receiver.url)
    assert caught.value.after == 86_400


async def test_expected_statuses_decide(call: Callable[..., Any], receiver: Receiver):
    answers(receiver, Answer(404))
    assert (await call(receiver.url, expected_statuses=[404]))["status"] == 404
    answers(receiver, Answer(200))
    with pytest.raises(PermanentError, match="answered 200"):
        await call(receiver.url, expected_statuses=[404])


async def test_a_refused_connection_is_retried(call: Callable[..., Any], receiver: Receiver):
    with pytest.raises(Retry, match="cannot be reached"):
        await call("http://127.0.0.1:1/")


async def test_a_slow_answer_is_given_up(call: Callable[..., Any], receiver: Receiver):
    import threading

    release = threading.Event()

    def wait(request: Received) -> Answer:
        release.wait(20)
        return Answer()

    receiver.answer = wait
    try:
        with pytest.raises(Retry, match=r"within 0\.2 s"):
            await call(receiver.url, timeout_seconds=0.2)
    finally:
        release.set()


async def test_a_large_answer_is_cut(call: Callable[..., Any], receiver: Receiver):
    answers(receiver, Answer(body=b"x" * (MOST_BYTES + 1)))
    result = await call(receiver.url)
    assert result["truncated"]
    assert len(result["body"]) == MOST_BYTES


async def test_redirects_are_followed_and_keep_secrets_home(
    call: Callable[..., Any], receiver: Receiver
):
    with Receiver().serving() as other:
        answers(receiver, Answer(303, {"location": f"{other.url}/there"}))
        result = await call(
            receiver.url, method="POST", body="x", headers={"Authorization": "secret"}
        )
        assert result["url"] == f"{other.url}/there"
        [request] = other.received
        assert (request.method, request.body) == ("GET", b"")
        assert "authorization" not in request.headers


async def test_a_circle_of_redirects_ends(call: Callable[..., Any], receiver: Receiver):
    answers(receiver, Answer(302, {"location": "/again"}))
    with pytest.raises(PermanentError, match="answered 302"):
        await call(receiver.url)
    assert len(receiver.received) == 6


async def test_each_redirect_is_checked(receiver: Receiver):
    client = Client(parse_networks("127.0.0.1"))
    answers(receiver, Answer(302, {"location": f"http://127.0.0.2:{receiver.port}/"}))
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.2"):
        await Http(lambda: client).run(CONTEXT, receiver.url)
    await client.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0"]
)
async def test_no_private_address_under_any_name(receiver: Receiver, host: str):
    client = Client()
    with pytest.raises(AddressRefused):
        await Http(lambda: client).run(CONTEXT, f"http://{host}:{receiver.port}/")
    assert receiver.received == []
    await client.close()


async def test_a_name_that_changes_its_answer_gains_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    # The first look-up is public, every later one is not: only one must be made.
    looked: list[str] = []
    connected: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        looked.append(host)
        address = "93.184.216.34" if len(looked) == 1 else "127.0.0.1"
        return [(2, 1, 6, "", (address, port))]

    client = Client()
    backend: Any = client._pool._network_backend
    plain = backend._plain.connect_tcp

    async def connect_tcp(host: str, *rest: Any) -> Any:
        connected.append(host)
        return await plain("127.0.0.1", *rest)  # stands for that public host

    monkeypatch.setattr(backend._plain, "connect_tcp", connect_tcp)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    await Http(lambda: client).run(CONTEXT, f"http://rebind.example:{receiver.port}/")
    assert (looked, connected) == (["rebind.example"], ["93.184.216.34"])
    await client.close()
    second = Client()
    with pytest.raises(AddressRefused):
        await Http(lambda: second).run(CONTEXT, f"http://rebind.example:{receiver.port}/")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "file:///etc/passwd"}, "no web address"),
        ({"url": "http://"}, "no web address"),
        ({"url": "http://user:word@example.com/"}, "user name or password"),
        ({"url": "http://example.com:99999/"}, "cannot be read"),
        ({"headers": {"Host": "internal"}}, "'Host' cannot be set"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be set"),
        ({"headers": {"X": "a\r\nY: b"}}, "X has a value"),
        ({"headers": {"a b": "c"}}, "cannot be set"),
        ({"body": "x", "json": 1}, "both given"),
    ],
)
async def test_bad_calls_are_permanent_and_say_why(
    call: Callable[..., Any], options: dict[str, Any], told: str
):
    with pytest.raises(PermanentError, match=told):
        await call(**{"url": "http://127.0.0.1:1/", **options})
