"""Failure analytics over REST: numbers, filters, and whose they are."""

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

WHERE = "/api/v1/analytics/failures"


@pytest.fixture
def failed(engine: Engine) -> Engine:
    """One dead task of tenant a, two of tenant b."""
    engine.value("refresh_rollup")
    for tenant in ("a", "b", "b"):
        engine.submit("mail", max_retries=0, metadata={"tenant_id": tenant})
    engine.fail(engine.claim(3), error_type="SMTPError", error_message="no route")
    engine.count_ends()
    return engine


def test_failures_by_type_and_error(client: httpx.Client, failed: Engine):
    found = client.get(WHERE, params={"seconds": 3600}).json()
    assert [(one["task_type"], one["dead"]) for one in found["types"]] == [("mail", 3)]
    [kind] = found["errors"]
    assert (kind["error_type"], kind["errors"], kind["task_types"]) == ("SMTPError", 3, ["mail"])
    assert kind["first_seen"] <= kind["last_seen"]
    assert sum(one["errors"] for one in found["over_time"]) == 3
    assert all(one["at"].endswith("Z") for one in found["over_time"])
    assert client.get(f"/api/v1/tasks/{kind['task_id']}").json()["status"] == "DEAD"


def test_filters(client: httpx.Client, failed: Engine):
    found = client.get(WHERE, params={"tenant_id": "a"}).json()
    assert [one["errors"] for one in found["errors"]] == [1]
    fingerprint = found["errors"][0]["fingerprint"]
    assert client.get(WHERE, params={"fingerprint": fingerprint}).json()["errors"]
    assert client.get(WHERE, params={"fingerprint": "f" * 32}).json()["errors"] == []
    assert client.get(WHERE, params={"queue": "other"}).json()["types"] == []


def test_a_bound_key_sees_its_tenant_only(api: Api, failed: Engine):
    bound = api.client("reader", "a")
    assert [one["errors"] for one in bound.get(WHERE).json()["errors"]] == [1]
    problem(bound.get(WHERE, params={"tenant_id": "b"}), 403, "not_allowed", "tenant_id")


@pytest.mark.parametrize(
    ("name", "value"), [("seconds", "5"), ("seconds", "x"), ("limit", "501"), ("span", "1h")]
)
def test_bad_parameters_are_named(client: httpx.Client, name: str, value: str):
    problem(client.get(WHERE, params={name: value}), 422, "invalid_input", name)
