"""The interactive manual of the API."""

from collections.abc import Callable

import httpx
from playwright.sync_api import Page, expect

from skiplane.tests.api.conftest import Api
from skiplane.web.contract import OPERATIONS

Open = Callable[..., Page]


def test_manual_shows_every_operation_and_finds_one(open_page: Open):
    page = open_page(role=None)
    page.goto("/docs")
    operations = page.locator("main section > details")
    expect(operations).to_have_count(len(OPERATIONS))
    page.get_by_label("Find").fill("preview")
    shown = page.locator("main section > details:visible")
    expect(shown).not_to_have_count(len(OPERATIONS))
    assert all("preview" in text.lower() for text in shown.all_inner_texts())


def test_manual_sends_a_request_with_the_key_that_was_typed(open_page: Open, api: Api):
    page = open_page(role=None, expect="401")
    page.goto("/docs#submit_task")
    box = page.locator("#submit_task")
    box.get_by_role("button", name="Send").click()
    expect(box.get_by_role("status")).to_contain_text("unauthenticated")
    page.get_by_label("API key").fill(api.make_key("producer"))
    body = box.get_by_label("Body, JSON")
    body.fill('{"task_type": "<img src=x onerror=alert(1)>", "payload": 1}')
    box.get_by_role("button", name="Send").click()
    expect(box.get_by_role("status")).to_contain_text("PENDING")


def test_manual_loads_nothing_from_elsewhere(api: Api):
    for path in ("/docs", "/docs/page.js", "/docs/page.css"):
        answer = httpx.get(f"{api.url}{path}")
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text
        assert "https://" not in answer.text
