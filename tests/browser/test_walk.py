"""Walking through the pages: no complaint, nothing unreachable, nothing that overflows."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.scenario import fill

Open = Callable[..., Page]


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_are_accessible_on_a_phone_and_on_a_desk(
    open_page: Open, engine: Engine, colours: str
):
    scenario = fill(engine)
    # The checker brings its own script, which the pages' policy would not let in.
    page = open_page(color_scheme=colours, bypass_csp=True, expect="404")
    found = []
    for path in ["/ui/sign-in", "/ui/nowhere", *scenario.pages]:
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(path)
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, f"{path} is wider than {width}"
            if width == 1280 or colours == "light":
                results = Axe().run(page).response["violations"]
                found += [
                    (path, width, one["id"], [node["html"][:200] for node in one["nodes"][:3]])
                    for one in results
                ]
    assert found == []


def test_every_page_has_its_title_one_heading_and_its_place(open_page: Open, engine: Engine):
    scenario = fill(engine)
    page = open_page()
    titles = {}
    for path in scenario.pages:
        page.goto(path)
        assert page.locator("h1").count() == 1, path
        assert page.locator("main").count() == 1
        assert page.locator('nav [aria-current="page"]').count() == 1, path
        titles[path] = page.title()
        assert titles[path].endswith(" · Skiplane")
        for table in page.locator("table").all():
            assert table.locator("caption").count() == 1, path
            assert table.locator("th:not([scope])").count() == 0
    assert len(set(titles.values())) > 15


def test_states_are_told_by_shape_and_word(open_page: Open, engine: Engine):
    scenario = fill(engine)
    page = open_page()
    shapes = {}
    for state, id_ in scenario.tasks.items():
        page.goto(f"/ui/tasks/{id_}")
        badge = page.locator("#head .badge")
        expect(badge).to_have_text(state.upper())
        shapes[state] = badge.locator("svg").inner_html()
    assert len(set(shapes.values())) == len(shapes)


def test_a_page_is_live_and_stands_still_when_asked(open_page: Open, engine: Engine):
    task = engine.submit("first")
    page = open_page()
    page.goto("/ui/tasks")
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(1)
    live = page.locator("#live")
    expect(live).to_have_attribute("aria-pressed", "true")
    engine.submit("second")
    expect(rows).to_have_count(2)
    engine.value("cancel_task", task_id=task)
    expect(page.locator("#list .badge", has_text="CANCELLED")).to_have_count(1)
    live.click()
    expect(live).to_have_text("Paused")
    engine.submit("third")
    page.wait_for_timeout(2500)  # nothing may come: there is no condition to wait for
    expect(rows).to_have_count(2)
    live.click()
    expect(rows).to_have_count(3)


def test_a_live_page_leaves_alone_what_somebody_uses(open_page: Open, engine: Engine):
    task = engine.submit()
    page = open_page()
    page.goto(f"/ui/tasks/{task}")
    page.get_by_text("Cancel…").click()
    reason = page.get_by_label("Reason")
    reason.fill("half writ")
    claim = engine.claim(1)
    expect(page.locator("#head .badge")).to_have_text("RUNNING")
    expect(reason).to_have_value("half writ")
    expect(reason).to_be_focused()
    engine.finish(claim)
    expect(page.locator("#head .badge")).to_have_text("SUCCEEDED")


def test_the_end_of_a_session_leads_to_the_sign_in(open_page: Open, engine: Engine):
    engine.submit()
    page = open_page(expect="401")
    page.goto("/ui/tasks")
    engine.conn.execute(
        "update skiplane.api_key set revoked_at = skiplane.clock(), revoked_by = 'test'"
    )
    engine.submit()
    page.wait_for_url("**/ui/sign-in?next=*", timeout=30_000)


def test_keys_reach_everything(open_page: Open, engine: Engine):
    for name in ("one", "two"):
        engine.submit(name)
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/ui/tasks")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("[data-row]").nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("[data-row]").nth(0)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/tasks/*-*")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/tasks?task_type=two")
    expect(page.locator("#list tbody tr")).to_have_count(1)


def test_the_theme_is_kept(open_page: Open):
    page = open_page(color_scheme="light")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(colour)
    theme = page.locator("#theme")
    theme.click()
    theme.click()
    expect(theme).to_have_text("◐Theme: dark")
    assert page.evaluate(colour) != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(colour) != light


def test_times_are_the_viewers_and_utc_on_hover(open_page: Open, engine: Engine):
    task = engine.submit(scheduled_at=datetime(2030, 7, 1, 12, 30, tzinfo=UTC))
    page = open_page()
    page.goto(f"/ui/tasks/{task}")
    shown = page.locator("#options dt", has_text="Scheduled").locator("xpath=..").locator("time")
    expect(shown).to_have_text("2030-07-01 08:30:00")
    expect(shown).to_have_attribute("title", "2030-07-01 12:30:00 UTC")


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/New_York"])
def test_the_picker_gives_back_the_same_instant(open_page: Open, engine: Engine, zone: str):
    due = datetime(2030, 3, 1, 4, 5, 6, 789012, tzinfo=UTC)
    task = engine.submit(scheduled_at=due)
    page = open_page(timezone_id=zone)
    page.goto(f"/ui/tasks/{task}/edit")
    page.get_by_label("Priority").select_option("high")
    page.get_by_role("button", name="Store").click()
    page.wait_for_url("**done=edited")
    stored = datetime.fromisoformat(engine.get(task)["scheduled_at"])
    assert stored == due
    page.goto(f"/ui/tasks/{task}/edit")
    picker = page.get_by_label("Due")
    picker.fill("2030-06-01T10:00:00")
    page.get_by_role("button", name="Store").click()
    page.wait_for_url("**done=edited")
    stored = datetime.fromisoformat(engine.get(task)["scheduled_at"])
    away = {
        "Asia/Kathmandu": timedelta(hours=5, minutes=45),
        "America/New_York": -timedelta(hours=4),
    }
    assert stored == datetime(2030, 6, 1, 10, tzinfo=UTC) - away[zone]


def test_without_scripts_everything_can_still_be_done(open_page: Open, engine: Engine):
    task = engine.submit(scheduled_at=datetime(2030, 3, 1, tzinfo=UTC))
    page = open_page(java_script_enabled=False)
    page.goto(f"/ui/tasks/{task}/edit")
    expect(page.get_by_label("Due")).to_have_value(re.compile("2030-03-01T00:00:00.*Z"))
    page.get_by_label("Due").fill("2031-01-01T00:00:00Z")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("The change is stored.")).to_be_visible()
    assert engine.get(task)["scheduled_at"].startswith("2031-01-01T00:00:00")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_text("The task was cancelled.")).to_be_visible()


def test_empty_pages_say_so(open_page: Open):
    page = open_page()
    for path, text in (
        ("/ui", "Nothing waits."),
        ("/ui/tasks", "No tasks yet."),
        ("/ui/dead-letters", "No dead letters."),
        ("/ui/failures", "No attempt failed in this time."),
        ("/ui/queues", "Nothing waits, and no worker serves a queue."),
        ("/ui/workers", "No worker runs."),
        ("/ui/workflows", "No workflows yet."),
        ("/ui/schedules", "No schedules yet."),
    ):
        page.goto(path)
        expect(page.get_by_text(text).first).to_be_visible()
