"""One Chromium for the tests of this folder, and pages that notice every complaint."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, sync_playwright

from skiplane.tests.api.conftest import Api, serving
from skiplane.tests.support.engine import Engine

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# It is alone here, and asks nobody on the network for anything.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One browser at a time: all tests of this folder run on one worker."""
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    found = os.environ.get("SKIPLANE_TEST_CHROMIUM")
    found = found or next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, "no Chromium: install Debian's chromium, or name one in SKIPLANE_TEST_CHROMIUM"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=OPTIONS)
        yield launched
        launched.close()


@pytest.fixture
def api(dsn: str) -> Iterator[Api]:
    """A server on the fresh database."""
    with serving(dsn) as running:
        yield running


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the same database."""
    return Engine(conn)


class Watch:
    """What a page complained of: errors, warnings, violated policies, dialogs, bad answers."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._close)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} {message.location}")

    def _close(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def check(self) -> None:
        """Fail when there was any that is not expected."""
        found = [
            text
            for text in self.complaints
            if not any(expected in text for expected in self.expected)
        ]
        assert found == []


@pytest.fixture
def open_page(browser: Browser, api: Api) -> Iterator[Callable[..., Page]]:
    """Open a page, signed in with a role; whatever it complains of fails the test."""
    watches: list[Watch] = []
    contexts = []

    def opened(
        role: str | None = "admin", tenant: str | None = None, expect: str = "", **options: Any
    ) -> Page:
        options = {"locale": "en-GB", "timezone_id": "America/New_York", **options}
        context = browser.new_context(base_url=api.url, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        watch = Watch(page)
        watch.expected = (expect,) if expect else ()
        watches.append(watch)
        if role is not None:
            page.goto("/ui/sign-in")
            page.get_by_label("API key").fill(api.make_key(role, tenant))
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/ui")
        return page

    yield opened
    for context in contexts:
        context.close()
    for watch in watches:
        watch.check()
