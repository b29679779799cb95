"""Who may see and do what at the dashboard."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import psycopg

from skiplane.schema import key_calls
from skiplane.schema.pools import SyncPool
from skiplane.tests.api.conftest import Api
from skiplane.tests.dashboard.conftest import Visitor
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.scenario import Scenario, fill
from skiplane.web.dashboard.handlers import HANDLERS

Visit = Callable[..., Visitor]
ID = "01a22fd0-9705-73ef-8000-0b77a7d523f5"
OPEN = {"/", "/ui/sign-in", "/ui/static/{name:str}"}


def routes(method: str) -> list[str]:
    """All paths of the dashboard that take a method and are not open."""
    return [
        re.sub(r"\{verb:str\}", "retry", re.sub(r"\{\w+_id:str\}", ID, path))
        for handler in HANDLERS
        if method in handler.http_methods
        for path in handler.paths
        if path not in OPEN
    ]


def test_routes_are_known():
    assert len(routes("GET")) > 15
    assert len(routes("POST")) > 10


def test_no_page_is_shown_without_signing_in(api: Api):
    for path in routes("GET"):
        answer = httpx.get(api.url + path)
        if path == "/ui/events":
            assert answer.status_code == 401
            continue
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/ui/sign-in")
        assert answer.content == b""


def test_nothing_is_done_without_signing_in(api: Api):
    for path in [*routes("POST"), "/ui/nowhere"]:
        assert httpx.post(api.url + path, data={"csrf": "x"}).status_code == 401, path


def test_an_api_key_in_a_header_opens_no_page(api: Api):
    client = api.client()
    for name in ("/ui", "/ui/tasks"):
        assert client.get(name).status_code == 303


def test_a_session_opens_no_api(api: Api, visit: Visit):
    assert visit().get("/api/v1/tasks").status_code == 401


def test_the_session_is_kept_from_scripts_and_from_other_sites(api: Api):
    answer = httpx.post(api.url + "/ui/sign-in", data={"key": api.make_key()})
    cookie = answer.headers["set-cookie"]
    parts = {part.strip().partition("=")[0].lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite", "path", "max-age"} <= parts
    assert "SameSite=Strict" in cookie
    assert "secure" not in parts


def test_the_session_over_https_is_bound_to_it(api: Api):
    headers = {"x-forwarded-proto": "https"}
    answer = httpx.post(api.url + "/ui/sign-in", data={"key": api.make_key()}, headers=headers)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-skiplane=")
    assert "; Secure" in cookie
    assert "Domain" not in cookie


def test_a_wrong_key_is_refused_in_words(api: Api):
    for key in ("", "sk_00000000_wrong", "x" * 5000, "\0", "sk_\u202e"):
        answer = httpx.post(api.url + "/ui/sign-in", data={"key": key})
        assert answer.status_code == 401
        assert "This key is not known" in answer.text
        assert "set-cookie" not in answer.headers


def test_the_key_is_in_no_page(api: Api, visit: Visit, scenario: Scenario):
    key = api.make_key()
    visitor = visit(key=key)
    for path in scenario.pages:
        assert key not in visitor.see(path)


def test_a_session_ends_when_its_key_is_revoked(api: Api, dsn: str, visit: Visit):
    key = api.make_key()
    visitor = visit(key=key)
    assert visitor.get("/ui/tasks").status_code == 200
    pool = SyncPool(dsn, size=1)
    pool.run(key_calls.revoke_api_key("_".join(key.split("_")[:2])))
    pool.close()
    wait_until(lambda: visitor.get("/ui/tasks").status_code == 303, what="the end of the session")


def test_signing_out_ends_the_session_itself(api: Api, visit: Visit):
    visitor = visit()
    token = visitor.client.cookies["skiplane"]
    assert visitor.post("/ui/sign-out").status_code == 303
    again = httpx.get(api.url + "/ui/tasks", cookies={"skiplane": token})
    assert again.status_code == 303


def test_a_session_lasts_no_longer_than_its_key(api: Api, dsn: str, visit: Visit):
    visitor = visit()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("update skiplane.web_session set expires_at = now() - interval '1 second'")
    wait_until(lambda: visitor.get("/ui/tasks").status_code == 303, what="the end of the session")


WHERE = {
    "/ui/tasks?status=DEAD": "/ui/tasks?status=DEAD",
    "https://evil.example/": "/ui",
    "//evil.example/ui": "/ui",
    "/ui//evil.example": "/ui",
    "/ui/\\evil.example": "/ui",
    "/uix": "/ui",
    "javascript:alert(1)": "/ui",
    "/ui/tasks\r\nset-cookie: a=b": "/ui",
}


def test_signing_in_leads_nowhere_else(api: Api):
    key = api.make_key()
    for asked, given in WHERE.items():
        answer = httpx.post(api.url + "/ui/sign-in", data={"key": key, "next": asked})
        assert answer.status_code == 303
        assert answer.headers["location"] == given, asked


def test_other_sites_change_nothing(api: Api, engine: Engine, visit: Visit):
    task = engine.submit()
    visitor, key = visit(), api.make_key()
    data = {"csrf": visitor.csrf()}
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null"},
    ):
        answer = visitor.client.post(f"/ui/tasks/{task}/cancel", data=data, headers=headers)
        assert answer.status_code == 403
        answer = httpx.post(api.url + "/ui/sign-in", data={"key": key}, headers=headers)
        assert answer.status_code == 403
    assert engine.status(task) == "PENDING"


def test_a_form_without_proof_is_refused(visit: Visit):
    visitor, other = visit(), visit()
    mine, theirs = visitor.csrf(), other.csrf()
    for path in routes("POST"):
        for proof in ("", "0" * 64, theirs, "\u00e9"):
            answer = visitor.client.post(path, data={"csrf": proof})
            assert answer.status_code == 403, path
            assert "The form is out of date" in answer.text
        assert visitor.client.post(path, json={"csrf": mine}).status_code == 415


def test_reading_changes_nothing(visit: Visit, engine: Engine, scenario: Scenario):
    def everything() -> Any:
        return engine.one(
            "select jsonb_build_array("
            " (select count(*) from skiplane.ready), (select count(*) from skiplane.dead),"
            " (select count(*) from skiplane.outcome), (select count(*) from skiplane.action),"
            " (select jsonb_agg(status) from skiplane.schedule),"
            " (select bool_or(draining) from skiplane.worker))"
        )

    before = everything()
    visitor = visit()
    for path in [*scenario.pages, *routes("POST")]:
        visitor.get(path)
    assert everything() == before


def test_a_reader_sees_every_list_and_no_button(visit: Visit, scenario: Scenario):
    reader, admin = visit("reader"), visit()
    forms = re.compile(r'<form[^>]*method="post"[^>]*action="(?!/ui/sign-out)([^"]*)"')
    assert any(forms.search(admin.see(path)) for path in scenario.pages)
    for path in scenario.pages:
        answer = reader.get(path)
        if answer.status_code == 403:
            assert re.search(r"/(edit|new|retry|discard)$", path)
            continue
        assert answer.status_code == 200
        assert not forms.search(answer.text), path
        assert not re.search(r'href="[^"]*/(edit|new|retry|discard)[?"]', answer.text), path


def test_a_reader_changes_nothing(visit: Visit):
    reader = visit("reader")
    for path in routes("POST"):
        if path == "/ui/sign-out":
            continue
        answer = reader.post(path)
        assert answer.status_code == 403, path
        assert "the key has the role reader" in answer.text


def test_a_tenant_sees_nothing_of_another(visit: Visit, engine: Engine):
    mine = fill(engine, "mine", "my-secret", metadata={"tenant_id": "a"})
    theirs = fill(engine, "theirs", "their-secret", metadata={"tenant_id": "b"})
    visitor = visit("admin", "a")
    for path in mine.pages:
        answer = visitor.get(path)
        fleet = re.match(r"/ui/(queues|workers)", path)
        assert answer.status_code == (403 if fleet else 200), path
        assert "their" not in answer.text, path
    for state, id_ in theirs.tasks.items():
        assert visitor.get(f"/ui/tasks/{id_}").status_code == 404, state
        assert visitor.post(f"/ui/tasks/{id_}/cancel").status_code == 404, state
    for path in (f"workflows/{theirs.workflow}", f"schedules/{theirs.schedule}"):
        assert visitor.get(f"/ui/{path}").status_code == 404
    for verb in ("pause", "resume", "run", "delete"):
        assert visitor.post(f"/ui/schedules/{theirs.schedule}/{verb}").status_code == 404
    assert visitor.post(f"/ui/workflows/{theirs.workflow}/cancel").status_code == 404
    assert "their" not in visitor.get("/ui/dead-letters?tenant_id=b").text
    assert visitor.post("/ui/dead-letters/discard").headers["location"].endswith("n=1")
    assert engine.one("select count(*) from skiplane.dead") == 1


def test_errors_are_pages(visit: Visit):
    visitor = visit()
    for path, status in (
        ("/ui/nowhere", 404),
        (f"/ui/tasks/{ID}", 404),
        ("/ui/tasks/not-an-id", 404),
        ("/ui/tasks?status=NONE", 422),
        ("/ui/tasks?cursor=garbage", 422),
        ("/ui/tasks?created_after=2026-01-01T00:00:00", 422),
        ("/ui/tasks?created_after=yesterday", 422),
        ("/ui/failures?span=9y", 422),
        ("/ui/static/nothing.js", 404),
        ("/ui/static/..%2fsessions.py", 404),
    ):
        answer = visitor.get(path)
        assert answer.status_code == status, path
        assert f'<p class="code">{status}</p>' in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_static_files_are_kept_by_their_content(api: Api, visit: Visit):
    page = httpx.get(api.url + "/ui/sign-in").text
    found = re.findall(r'(?:src|href)="(/ui/static/[^"]+)"', page)
    assert len(found) >= 3
    for path in found:
        answer = httpx.get(api.url + path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r'(?:src|href)="(?!/|#)', page)
