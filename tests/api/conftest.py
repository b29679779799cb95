"""A web server on a fresh database, in a thread of the test's own process."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from skiplane.schema import key_calls
from skiplane.schema.pools import SyncPool
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine
from skiplane.web.serve import Server, make_server, open_socket
from skiplane.web.settings import WebSettings


class Api:
    """A running server and what a test may ask of it."""

    def __init__(self, dsn: str, server: Server, url: str) -> None:
        self.dsn = dsn
        self.server = server
        self.url = url
        self._clients = contextlib.ExitStack()

    def make_key(self, role: str = "admin", tenant: str | None = None, **more: Any) -> str:
        """Make a key and give it."""
        drawn = key_calls.draw_key()
        pool = SyncPool(self.dsn, size=1)
        try:
            pool.run(key_calls.create_api_key(drawn, role, role, tenant, **more))
        finally:
            pool.close()
        return drawn.key

    def client(
        self, role: str = "admin", tenant: str | None = None, key: str | None = None
    ) -> httpx.Client:
        """Give a client with a key."""
        key = key or self.make_key(role, tenant)
        return self._clients.enter_context(
            httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)
        )

    def close(self) -> None:
        """Close all clients."""
        self._clients.close()


@contextlib.contextmanager
def serving(dsn: str, **settings: Any) -> Iterator[Api]:
    """Serve on a database until the block ends."""
    server = make_server(WebSettings(dsn=dsn, connections=4, **settings))
    with open_socket("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        api = Api(dsn, server, f"http://127.0.0.1:{bound.getsockname()[1]}")
        try:
            wait_until(lambda: server.started, what="the server")
            yield api
        finally:
            api.close()
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def api(dsn: str) -> Iterator[Api]:
    """A server on the fresh database."""
    with serving(dsn) as running:
        yield running


@pytest.fixture
def client(api: Api) -> httpx.Client:
    """A client that may do everything."""
    return api.client()


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the same database."""
    return Engine(conn)


def problem(answer: httpx.Response, status: int, code: str, field: str | None = None) -> Any:
    """Check that an answer is that problem, and give it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["code"] == code, document
    assert document["request_id"] == answer.headers["x-request-id"]
    if field is not None:
        assert document.get("field") == field, document
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return document
