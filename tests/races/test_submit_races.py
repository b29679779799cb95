"""Two submissions with one idempotency key: one task, and both callers get its id."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.races import Racer

KEYED = {"task_type": "work", "idempotency_key": "k"}


def listed(*keys: str, **options: Any) -> Jsonb:
    """Make a list for submit_tasks with these keys."""
    return Jsonb([{"task_type": "work", "idempotency_key": key, **options} for key in keys])


def test_second_gets_the_task_of_the_first_that_commits(
    first: Engine, second: Engine, watcher: Engine
):
    with first.conn.transaction():
        task_id = first.value("submit_task", **KEYED)[1]
        other = Racer(second, "submit_task", **KEYED).wait_for_lock(watcher)
    row = other.result()
    assert (row[1], row[2], row[5]) == (task_id, "PENDING", True)
    assert watcher.one("select count(*) from skiplane.ready") == 1


def test_second_submits_when_the_first_rolls_back(first: Engine, second: Engine, watcher: Engine):
    with first.conn.transaction(force_rollback=True):
        gone = first.value("submit_task", **KEYED)[1]
        other = Racer(second, "submit_task", **KEYED).wait_for_lock(watcher)
    row = other.result()
    assert row[1] != gone
    assert row[5] is False
    assert watcher.places(row[1]) == ["ready"]


def test_second_with_another_body_is_refused_after_the_wait(
    first: Engine, second: Engine, watcher: Engine
):
    with first.conn.transaction():
        first.value("submit_task", **KEYED)
        other = Racer(second, "submit_task", priority="low", **KEYED).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        other.result()
    assert caught.value.sqlstate == "SK004"


def test_keys_of_two_tenants_never_wait(first: Engine, second: Engine):
    with first.conn.transaction():
        one = first.value("submit_task", metadata={"tenant_id": "a"}, **KEYED)
        two = Racer(second, "submit_task", metadata={"tenant_id": "b"}, **KEYED).result()
    assert one[1] != two[1]


def test_different_keys_never_wait(first: Engine, second: Engine):
    with first.conn.transaction():
        first.value("submit_task", **KEYED)
        other = Racer(second, "submit_task", task_type="work", idempotency_key="other")
        assert other.result()[5] is False


def test_lists_in_opposite_order_never_deadlock(first: Engine, second: Engine, watcher: Engine):
    with first.conn.transaction():
        one = first.rows("submit_tasks", tasks=listed("a", "b"))
        query = Racer(
            second,
            "submit_batch",
            task_type="work",
            payloads=["{}"] * 2,
            idempotency_keys=["b", "a"],
        ).wait_for_lock(watcher)
    assert query.result() == [one[1][1], one[0][1]]


def test_the_first_wait_of_two_lists_is_for_the_same_key(
    first: Engine, second: Engine, watcher: Engine, dsn: str
):
    """A third holds the lower key: both lists stop there, neither holds the higher one."""
    with watcher.conn.transaction():
        watcher.value("submit_task", task_type="work", idempotency_key="a")
        with psycopg.connect(dsn, autocommit=True) as conn:
            eyes = Engine(conn)
            one = Racer(
                first,
                "submit_batch",
                task_type="work",
                payloads=["{}"] * 2,
                idempotency_keys=["b", "a"],
            ).wait_for_lock(eyes)
            two = Racer(
                second,
                "submit_batch",
                task_type="work",
                payloads=["{}"] * 2,
                idempotency_keys=["a", "b"],
            ).wait_for_lock(eyes)
    assert one.result() == two.result()[::-1]


def test_order_of_keys_does_not_depend_on_other_metadata(
    first: Engine, second: Engine, watcher: Engine
):
    """Metadata that differs would sort the tasks otherwise: a circle of waits."""
    with first.conn.transaction():
        [low] = first.rows("submit_tasks", tasks=listed("a", metadata={"trace": "m"}))
        tasks = [
            {"task_type": "work", "idempotency_key": "b", "metadata": {"trace": "a"}},
            {"task_type": "work", "idempotency_key": "a", "metadata": {"trace": "z"}},
        ]
        other = Racer(second, "submit_tasks", tasks=Jsonb(tasks)).wait_for_lock(watcher)
        [high] = first.rows("submit_tasks", tasks=listed("b", metadata={"trace": "m"}))
    assert [row[1] for row in other.rows()] == [high[1], low[1]]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_stricter_isolation_gets_a_retryable_error_or_the_task(
    first: Engine, second: Engine, watcher: Engine, level: str
):
    second.conn.execute(f"set default_transaction_isolation = '{level}'".encode())
    with first.conn.transaction():
        task_id = first.value("submit_task", **KEYED)[1]
        other = Racer(second, "submit_task", **KEYED).wait_for_lock(watcher)
    with pytest.raises(psycopg.errors.SerializationFailure):
        other.result()
    row = second.value("submit_task", **KEYED)
    assert (row[1], row[5]) == (task_id, True)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_every_verb_works_under_stricter_isolation(first: Engine, level: str):
    first.conn.execute(f"set default_transaction_isolation = '{level}'".encode())
    ids = first.many(3)
    claim = first.claim(3)
    assert claim.ids == ids
    first.finish(claim, {ids[0]: 1}, [{"task_id": ids[1], "kind": "error"}])
    first.value("cancel_task", task_id=ids[2])
    first.value("retry_task", task_id=ids[2])
    first.value("edit_task", task_id=ids[2], version=1, changes={"priority": "high"})
    first.skip(3600)
    assert first.value("promote_tasks")[0] == 1
    first.one("select skiplane.refresh_lanes(null)")
    first.one("select skiplane.refresh_lanes('{}')")
    assert first.value("sweep_leases")[0] == 0
    assert set(first.claim(5).ids) == set(ids[1:])


def test_waiting_for_a_key_ends_with_the_statement_timeout(
    first: Engine, second: Engine, watcher: Engine
):
    second.conn.execute("set statement_timeout = '300ms'")
    with first.conn.transaction():
        first.value("submit_task", **KEYED)
        other = Racer(second, "submit_task", **KEYED)
        with pytest.raises(psycopg.errors.QueryCanceled):
            other.result()
    second.conn.execute("reset statement_timeout")
    assert second.value("submit_task", **KEYED)[5] is True


def test_replay_while_its_task_runs_waits_for_nobody(first: Engine, second: Engine):
    task_id = second.value("submit_task", **KEYED)[1]
    with first.conn.transaction():
        first.claim()
        row = Racer(second, "submit_task", **KEYED).result()
    assert (row[1], row[5]) == (task_id, True)
