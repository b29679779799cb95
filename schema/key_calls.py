"""API keys: drawing one, and the calls that keep them. The engine sees hashes only."""

import hashlib
import secrets
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from .call import Call, Rows, call, optional_instant, text

ROLES = ("reader", "producer", "operator", "admin")
_PREFIX = "sk_"


class Drawn(NamedTuple):
    """A new key: its name for people, and the whole, which is shown once."""

    key_id: str
    key: str


class Known(NamedTuple):
    """Who comes with a key.

    Attributes:
        tenant_id: The tenant that the key is bound to, None for none.
        problem: ``revoked`` or ``expired``, None when all is well.
    """

    key_id: str
    role: str
    tenant_id: str | None
    expires_at: datetime | None
    problem: str | None


def draw_key() -> Drawn:
    """Draw a key of 256 random bits; its first eight characters name it."""
    name = secrets.token_hex(4)
    return Drawn(f"{_PREFIX}{name}", f"{_PREFIX}{name}_{secrets.token_urlsafe(32)}")


def hash_key(key: str) -> bytes:
    """Give what is stored of a key."""
    return hashlib.sha256(key.encode()).digest()


def _document(rows: Rows) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(rows[0][0])
    return document


def create_api_key(
    drawn: Drawn,
    name: str,
    role: str,
    tenant: str | None = None,
    expires_at: datetime | None = None,
    actor: str | None = None,
    within: str | None = None,
) -> Call[dict[str, Any]]:
    """Make a key known."""
    return call(
        "create_api_key",
        "create_api_key::text",
        _document,
        {
            "key_id": ("text", drawn.key_id),
            "hash": ("bytea", hash_key(drawn.key)),
            "name": text("name", name),
            "role": text("role", role),
            "tenant_id": text("tenant_id", tenant),
            "expires_at": optional_instant("expires_at", expires_at),
            "actor": text("actor", actor),
            "within": ("text", within),
        },
    )


def list_api_keys(
    within: str | None = None, limit: int = 50, cursor: str | None = None
) -> Call[list[dict[str, Any]]]:
    """Read keys, the newest first."""
    return call(
        "list_api_keys",
        "list_api_keys::text",
        lambda rows: [msgspec.json.decode(row[0]) for row in rows],
        {"within": ("text", within), "limit": ("int", limit), "cursor": text("cursor", cursor)},
        repeatable=True,
    )


def revoke_api_key(
    key_id: str, actor: str | None = None, within: str | None = None
) -> Call[dict[str, Any]]:
    """End a key for good."""
    return call(
        "revoke_api_key",
        "revoke_api_key::text",
        _document,
        {
            "key_id": text("key_id", key_id),
            "actor": text("actor", actor),
            "within": ("text", within),
        },
        repeatable=True,
    )


def authenticate_api_key(digest: bytes) -> Call[Known | None]:
    """Read who comes with a key of that hash, None when nobody."""
    return Call(
        "select key_id, role, tenant_id, expires_at, problem"
        " from skiplane.authenticate_api_key(cast(%s as bytea))",
        (digest,),
        lambda rows: Known(*rows[0]) if rows else None,
        repeatable=True,
    )
