"""skiplane keys: a key is shown once and opens nothing after it is revoked."""

from skiplane.schema import key_calls
from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


def test_key_is_printed_alone_and_only_its_hash_is_stored(skiplane: Run, engine: Engine):
    said = skiplane("keys", "create", "billing", "--role", "producer", "--tenant", "acme")
    key = said.out.strip()
    assert said.code == 0
    assert key.startswith("sk_")
    row = engine.rows("authenticate_api_key", hash=key_calls.hash_key(key))[0]
    assert row[:3] == (key[:11], "producer", "acme")
    stored = engine.one("select row_to_json(k)::text from skiplane.api_key k")
    assert key[11:] not in stored


def test_keys_are_listed_and_revoked(skiplane: Run, engine: Engine):
    made = skiplane("keys", "create", "ci", "--role", "reader", "--json").document
    shown = skiplane("keys", "list")
    assert made["key_id"] in shown.out
    assert made["key"] not in shown.out
    assert "in force" in shown.out
    assert skiplane("keys", "revoke", made["key_id"], "--actor", "ada").code == 0
    assert "revoked" in skiplane("keys", "list").out
    row = engine.rows("authenticate_api_key", hash=key_calls.hash_key(made["key"]))[0]
    assert row[4] == "revoked"


def test_bad_keys_are_refused_in_a_sentence(skiplane: Run):
    unknown = skiplane("keys", "revoke", "sk_nothing")
    assert unknown.code == 1
    assert "no such API key" in unknown.err.lower().replace("api", "API")
    past = skiplane(
        "keys", "create", "x", "--role", "reader", "--expires-at", "2020-01-01T00:00:00Z"
    )
    assert past.code == 2
    assert "expires_at" in past.err
    assert skiplane("keys", "create", "x", "--role", "king").code == 2
