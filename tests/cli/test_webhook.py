"""skiplane webhook"""

import uuid

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


def test_a_webhook_from_its_making_to_its_end(skiplane: Run, engine: Engine):
    made = skiplane("webhook", "create", "n", "https://example.com/", "--event", "alert", "--json")
    webhook_id = made.document["webhook_id"]
    assert made.document["secret"].startswith("whsec_")
    assert made.document["events"] == ["alert"]
    said = skiplane("webhook", "list")
    assert webhook_id in said.out
    assert "whsec_" not in said.out
    assert skiplane("webhook", "disable", webhook_id, "--json").document["enabled"] is False
    assert skiplane("webhook", "enable", webhook_id, "--json").document["enabled"] is True
    task_id = skiplane("webhook", "test", webhook_id).out.strip()
    assert engine.get(uuid.UUID(task_id))["payload"]["event"]["type"] == "webhook.test"
    assert "Deleted" in skiplane("webhook", "delete", webhook_id).out
    assert skiplane("webhook", "list", "--json").document == []


def test_refusals_say_what_to_do(skiplane: Run):
    said = skiplane("webhook", "create", "n", "gopher://example.com")
    assert said.code == 2
    assert "Give an http or https URL" in said.err
    said = skiplane("webhook", "delete", str(uuid.uuid4()))
    assert (said.code, "no such webhook" in said.err.lower()) == (1, True)


def test_the_key_of_callbacks_can_be_shown(skiplane: Run, engine: Engine):
    said = skiplane("webhook", "secret", "--tenant", "acme")
    assert said.out.strip() == engine.value("callback_secret", tenant_id="acme")
