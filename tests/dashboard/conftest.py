"""Visitors: clients that have signed in as people do."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from skiplane.tests.api.conftest import Api, serving
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.scenario import Scenario, fill


@pytest.fixture
def api(dsn: str) -> Iterator[Api]:
    """A server on the fresh database."""
    with serving(dsn) as running:
        yield running


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the same database."""
    return Engine(conn)


@pytest.fixture
def scenario(engine: Engine) -> Scenario:
    """Something on every page."""
    return fill(engine)


class Visitor:
    """A browser without eyes: cookies, forms, no redirects by itself."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Open a page."""
        return self.client.get(path, **more)

    def see(self, path: str) -> str:
        """Open a page that must be there, and give its text."""
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-800:])
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def csrf(self) -> str:
        """Give what forms carry along."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.see("/ui/failures"))
        assert found
        return found[1]

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form of ours."""
        return self.client.post(path, data={"csrf": self.csrf(), **fields})


@pytest.fixture
def visit(api: Api) -> Iterator[Callable[..., Visitor]]:
    """Sign in with a new key of a role, or with a given one."""
    clients: list[httpx.Client] = []

    def sign_in(role: str = "admin", tenant: str | None = None, key: str | None = None) -> Visitor:
        client = httpx.Client(base_url=api.url, timeout=30)
        clients.append(client)
        key = key or api.make_key(role, tenant)
        answer = client.post("/ui/sign-in", data={"key": key})
        assert answer.status_code == 303, answer.text
        return Visitor(client)

    yield sign_in
    for client in clients:
        client.close()
