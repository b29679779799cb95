"""Shard labels: which there are, and the function that tells every hot call at no cost."""

from psycopg.types.json import Jsonb

from .errors import MigrationError
from .files import SqlFile
from .session import Connection, one

# An id has 14 bits for its label.
MOST = 1 << 14
# Each falls on a physical shard of its own when Citus makes 32 of them by hash;
# the labels 0 to 31 would share 21.
CITUS = (
    *(8, 1, 31, 24, 10, 48, 5, 50, 4, 17, 16, 85, 36, 0, 37, 3),
    *(52, 62, 136, 28, 6, 21, 39, 13, 2, 27, 58, 41, 9, 22, 11, 18),
)


def stored_labels(connection: Connection) -> list[int]:
    """Give the labels that this database uses; [0] as long as nothing was said."""
    value = one(connection, "select value from skiplane.setting where name = 'shards'")
    return [int(label) for label in value or [0]]


def wanted_labels(stored: list[int], count: int | None, *, citus: bool, fresh: bool) -> list[int]:
    """Give the labels for that many shards. Those in use stay: ids carry them.

    Args:
        stored: Labels in use.
        count: Number of shards that was asked for, None to leave it: 1 on a new
            database, and 32 on one with Citus.
        citus: Whether labels are spread over a cluster.
        fresh: Whether nothing was submitted yet.

    Raises:
        MigrationError: Fewer than there are, or out of range.
    """
    if count is None:
        count = len(CITUS) if citus and fresh else len(stored)
    if not 1 <= count <= MOST:
        raise MigrationError(
            f"The number of shards is from 1 to {MOST}, and {count} was asked for."
        )
    if count < len(stored) and not fresh:
        raise MigrationError(
            f"This database has {len(stored)} shards and {count} were asked for: their number can "
            "be raised, never lowered, because ids carry their shard."
        )
    labels = [] if fresh else list(stored)
    used = set(labels)
    for label in (*(CITUS if citus else ()), *range(MOST)):
        if len(labels) == count:
            break
        if label not in used:
            labels.append(label)
            used.add(label)
    return labels


def store_labels(connection: Connection, labels: list[int]) -> None:
    """Write the labels down."""
    connection.execute(
        "insert into skiplane.setting (name, value) values ('shards', %s)"
        " on conflict (name) do update set value = excluded.value",
        [Jsonb(labels)],
    )


def labels_function(labels: list[int]) -> SqlFile:
    """Give the function of the labels: immutable, so that a plan holds its value."""
    text = (
        "create or replace function skiplane.shard_labels() returns smallint[]\n"
        "language sql immutable parallel safe\n"
        f"as $$ select '{{{','.join(map(str, labels))}}}'::smallint[] $$;\n"
        "comment on function skiplane.shard_labels() is\n"
        "'Shard labels of this database. Generated: change them with migrate --shards.';\n"
    )
    return SqlFile.of("generated/shard_labels", text)
