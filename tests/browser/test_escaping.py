"""Markup in every name, text and value is shown as text, everywhere."""

from collections.abc import Callable
from urllib.parse import quote

from playwright.sync_api import Page, expect

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.scenario import fill

Open = Callable[..., Page]
ATTACKS = (
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</script><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}#{7*7}",
    "';alert(1)//\u202egnp.exe",
)
# What the browser would have made out of markup that got through.
FOREIGN = """
[...document.querySelectorAll('main *, nav *, header *')].filter(element =>
    element.tagName === 'SCRIPT' || element.tagName === 'IFRAME' || element.tagName === 'STYLE'
    || (element.tagName === 'IMG' && element.getAttribute('src') === 'x')
    || [...element.attributes].some(one => /^on/.test(one.name) || one.name === 'style')
    || /^(javascript|data|vbscript):/i.test(element.getAttribute('href') || '')
).map(element => element.outerHTML.slice(0, 200))
"""


def test_markup_in_names_and_texts_stays_text(open_page: Open, engine: Engine):
    everything = " ".join(ATTACKS)
    scenario = fill(engine, ATTACKS[0], everything, metadata={"tenant_id": ATTACKS[1]})
    fill(engine, ATTACKS[2], everything, metadata={"tenant_id": ATTACKS[5]})
    page = open_page()
    for path in scenario.pages:
        page.goto(path)
        assert page.evaluate(FOREIGN) == [], path
        assert "49" not in page.locator("h1").inner_text()
    page.goto("/ui/tasks")
    # Told apart from what it pretends to be.
    expect(page.get_by_text(ATTACKS[0], exact=True).first).to_be_visible()
    page.goto(f"/ui/tasks/{scenario.tasks['failed']}")
    expect(page.get_by_text("[U+202E]").first).to_be_visible()
    assert "\u202e" not in page.content()


def test_markup_that_comes_live_stays_text(open_page: Open, engine: Engine):
    page = open_page()
    page.goto("/ui/tasks")
    engine.submit(ATTACKS[0], {ATTACKS[1]: ATTACKS[2]}, queue=ATTACKS[1])
    expect(page.get_by_text(ATTACKS[0], exact=True)).to_be_visible()
    assert page.evaluate(FOREIGN) == []


def test_markup_in_addresses_stays_text(open_page: Open, engine: Engine):
    fill(engine)
    page = open_page(expect="Failed to load resource")
    names = ("status", "task_type", "queue", "tenant_id", "tag", "created_after", "workflow_id")
    for attack in ATTACKS:
        text = quote(attack, safe="")
        for path in (
            f"/ui/{text}",
            f"/ui/tasks/{text}",
            f"/ui/search?q={text}",
            f"/ui/queues?name={text}",
            f"/ui/failures?span={text}&fingerprint={text}",
            f"/ui/dead-letters?fingerprint={text}&done={text}&n={text}",
            f"/ui/schedules/preview?cron_expression={text}&timezone={text}",
            f"/ui/tasks?cursor={text}",
            *(f"/ui/tasks?{name}={text}" for name in names),
        ):
            page.goto(path)
            assert page.evaluate(FOREIGN) == [], path


def test_a_refused_form_shows_what_was_sent_as_text(open_page: Open, engine: Engine):
    task = engine.submit(delay_seconds=1000)
    page = open_page(expect="400")
    page.goto(f"/ui/tasks/{task}/edit")
    page.get_by_label("Payload").fill(f'{{"a": {ATTACKS[2]}}}')
    page.get_by_label("Queue").fill(ATTACKS[1])
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate(FOREIGN) == []
    expect(page.get_by_label("Queue")).to_have_value(ATTACKS[1])


def test_the_policy_lets_nothing_foreign_run(open_page: Open):
    page = open_page(expect="TrustedHTML")
    answer = page.request.get("/ui")
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    blocked = page.evaluate(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return false; }"
        " catch (error) { return true; } })()"
    )
    assert blocked
