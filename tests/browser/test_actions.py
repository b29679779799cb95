"""What people do at the dashboard, clicked through."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.scenario import fill

Open = Callable[..., Page]


def test_cancel_and_retry_a_task(open_page: Open, engine: Engine):
    task = engine.submit()
    page = open_page()
    page.goto(f"/ui/tasks/{task}")
    page.get_by_text("Cancel…").click()
    page.get_by_label("Reason").fill("by hand")
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.get_by_text("The task was cancelled.")).to_be_visible()
    expect(page.locator("#head .badge")).to_have_text("CANCELLED")
    page.get_by_text("Retry…").click()
    page.get_by_role("button", name="Run it again").click()
    expect(page.get_by_text("The task will run again.")).to_be_visible()
    assert engine.status(task) == "PENDING"
    actions = engine.get(task)["actions"]
    assert [action["verb"] for action in actions] == ["cancel", "retry"]
    assert actions[0]["detail"]["reason"] == "by hand"
    assert actions[0]["actor"].startswith("api:sk_")


def test_an_edit_that_comes_too_late_says_so(open_page: Open, engine: Engine):
    task = engine.submit(delay_seconds=1000)
    page = open_page(expect="412")
    page.goto(f"/ui/tasks/{task}/edit")
    engine.value("edit_task", task_id=task, version=1, changes={"priority": "low"})
    page.get_by_label("Priority").select_option("high")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("alert")).to_contain_text("edited in between")
    assert engine.get(task)["priority"] == "low"


def test_edit_the_payload(open_page: Open, engine: Engine):
    task = engine.submit(payload={"large": 1}, delay_seconds=1000)
    page = open_page()
    page.goto(f"/ui/tasks/{task}")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Payload").fill('{"exact": 1234567890123456789012345678901234567890}')
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("The change is stored.")).to_be_visible()
    expect(page.locator("pre", has_text="1234567890123456789012345678901234567890")).to_be_visible()
    stored = engine.get(task)
    assert stored["payload"] == {"exact": 1234567890123456789012345678901234567890}
    assert stored["version"] == 2


def test_retry_one_kind_of_dead_letters_after_a_count(open_page: Open, engine: Engine):
    engine.many(5, max_retries=0)
    engine.fail(engine.claim(3), error_type="TimeoutError", error_message="after 17 s at host 4")
    engine.fail(engine.claim(2), error_type="ValueError", error_message="no 'x' in 12")
    page = open_page()
    page.goto("/ui/dead-letters")
    expect(page.locator("#kinds tbody tr")).to_have_count(2)
    expect(page.locator("#letters tbody tr")).to_have_count(5)
    page.get_by_role("link", name="Retry all: TimeoutError, work").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 3 dead letters?")
    page.get_by_label("Reason").fill("the host is back")
    page.get_by_role("button", name="Retry 3").click()
    expect(page.get_by_text("3 dead letters were retried.")).to_be_visible()
    expect(page.locator("#letters tbody tr")).to_have_count(2)
    assert engine.one("select count(*) from skiplane.dead where error_type = 'ValueError'") == 2
    assert engine.one("select count(*) from skiplane.ready") == 3
    page.get_by_role("link", name="Discard all…").click()
    page.get_by_role("button", name="Discard 2").click()
    expect(page.get_by_text("2 dead letters were discarded.")).to_be_visible()
    expect(page.get_by_text("No dead letters.")).to_be_visible()
    assert engine.one("select count(*) from skiplane.dead") == 0


def test_what_dies_after_the_count_is_not_touched(open_page: Open, engine: Engine):
    engine.many(3, max_retries=0)
    engine.fail(engine.claim(2), error_type="E")
    page = open_page()
    page.goto("/ui/dead-letters/discard")
    engine.fail(engine.claim(1), error_type="E")
    page.get_by_role("button", name="Discard 2").click()
    expect(page.get_by_text("2 dead letters were discarded.")).to_be_visible()
    assert engine.one("select count(*) from skiplane.dead") == 1


def test_drain_a_worker(open_page: Open, engine: Engine):
    scenario = fill(engine)
    page = open_page()
    page.goto("/ui/workers")
    page.locator("[data-row]").first.click()
    expect(page.locator("#tasks tbody tr")).to_have_count(1)
    expect(page.locator("#tasks")).to_contain_text("40 %")
    page.get_by_text("Drain…").click()
    page.get_by_role("button", name="Drain it").click()
    expect(page.get_by_text("The worker takes no more tasks.")).to_be_visible()
    assert engine.one(
        "select draining from skiplane.worker where worker_id = %s", [scenario.worker]
    )


def test_make_a_schedule_and_see_it_before(open_page: Open, engine: Engine):
    page = open_page(expect="422")
    page.goto("/ui/schedules")
    page.get_by_role("link", name="New schedule").click()
    page.get_by_label("Cron expression").press_sequentially("61 4 * * *")
    expect(page.locator("#preview")).to_contain_text("minute 61")
    page.get_by_label("Cron expression").fill("0 4 * * *")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(page.locator("#preview li")).to_have_count(10)
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("Type", exact=True).fill("report")
    page.get_by_label("Payload").fill('{"pages": 3}')
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("The schedule is stored.")).to_be_visible()
    made = engine.one("select next_fire_time::text from skiplane.cron_tasks where name = 'nightly'")
    assert made
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#head .badge")).to_have_text("PAUSED")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#fires tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#head .badge")).to_have_text("ACTIVE")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Cron expression").fill("@hourly")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_text("@hourly").first).to_be_visible()
    page.get_by_text("Delete…").click()
    page.get_by_role("button", name="Delete the schedule").click()
    expect(page.get_by_text("No schedules yet.")).to_be_visible()


def test_the_picture_of_a_workflow(open_page: Open, engine: Engine):
    scenario = fill(engine)
    page = open_page()
    page.goto(f"/ui/workflows/{scenario.workflow}")
    picture = page.locator("#picture")
    expect(picture.locator(".node")).to_have_count(3)
    expect(picture.locator(".arrow")).to_have_count(2)
    before = picture.get_attribute("viewBox")
    page.get_by_role("button", name="Larger").click()
    assert picture.get_attribute("viewBox") != before
    page.get_by_role("button", name="Fit").click()
    assert picture.get_attribute("viewBox") == before
    page.locator("#graph").focus()
    page.keyboard.press("ArrowRight")
    assert picture.get_attribute("viewBox") != before
    # With what else waits there.
    claim = engine.claim(10, queues=["work"])
    expect(picture.locator(".node.st-running")).to_have_count(1)
    moved = picture.get_attribute("viewBox")
    assert moved != before, "a live picture keeps what is looked at"
    engine.finish(claim)
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the workflow").click()
    expect(page.get_by_text("The workflow was cancelled.")).to_be_visible()
    picture.locator(".node").first.click()
    page.wait_for_url("**/ui/tasks/*-*")
