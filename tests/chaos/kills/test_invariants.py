"""The rules of the kill tests see what breaks them."""

import json
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.tests.chaos.kills import tasks
from skiplane.tests.chaos.kills.fleet import EFFECTS
from skiplane.tests.chaos.kills.invariants import broken_rules, misplaced
from skiplane.tests.chaos.kills.limits import CONCURRENCY, exceeded, leaked, set_limits

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def rules(conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that names the broken rules."""
    monkeypatch.setenv("SKIPLANE_CHAOS_FOLDER", str(tmp_path))
    conn.execute(EFFECTS.encode())
    return lambda: set(broken_rules(conn, tmp_path))


def end(conn: Connection, task_type: str) -> str:
    """Submit, claim and finish a task."""
    worker = uuid.uuid4()
    conn.execute("select from skiplane.submit_task(%s)", [task_type])
    row = conn.execute(
        "select lease_id, tasks from skiplane.claim_tasks(%s, '{default}')", [worker]
    ).fetchone()
    assert row is not None
    task_id = str(json.loads(row[1])[0]["task_id"])
    conn.execute(
        "select skiplane.finish_tasks(%s, %s, array[%s::uuid], array['1'])",
        [worker, row[0], task_id],
    )
    return task_id


def test_nothing_is_broken_where_all_is_well(conn: Connection, rules: Any):
    tasks.mark("acknowledged", end(conn, "quick"), "quick", "-")
    assert not rules()


def test_a_lost_task_is_seen(rules: Any):
    tasks.mark("acknowledged", uuid.uuid4(), "quick", "-")
    tasks.mark("cancelled", uuid.uuid4())
    assert rules() == {"an acknowledged task exists", "what was said to be cancelled is"}


def test_an_unfinished_task_is_seen(conn: Connection, rules: Any):
    conn.execute("select from skiplane.submit_task('quick')")
    assert rules() == {"a task has exactly one outcome", "nothing is left in ready"}


def test_wrong_numbers_of_writes_are_seen(conn: Connection, rules: Any):
    end(conn, "once")
    twice = end(conn, "once")
    conn.execute("insert into effect values (%s, 1), (%s, 2)", [twice, twice])
    assert rules() == {
        "a success wrote exactly once, anything else nothing",
        "what was written is of the claim that succeeded",
    }


def test_a_wrong_end_and_a_wrong_key_are_seen(conn: Connection, rules: Any):
    tasks.mark("acknowledged", end(conn, "doomed"), "doomed", "key")
    assert rules() == {
        "a task ends as its kind does, unless somebody wanted it cancelled",
        "a key was always answered with the same task",
    }


def test_a_forgotten_checkpoint_is_seen(rules: Any):
    tasks.mark("saved", "task", 1, 2)
    tasks.mark("begun", "task", 2, 1)
    assert rules() == {"a saved checkpoint is what the next attempt begins with"}


def test_a_task_in_two_places_or_none_is_seen(dsn: str, conn: Connection):
    conn.execute("select from skiplane.submit_task('quick')")
    conn.execute("select from skiplane.submit_task('quick', p_delay_seconds => 60)")
    assert not misplaced(dsn)
    end(conn, "quick")
    conn.execute("select from skiplane.submit_task('quick')")
    conn.execute("insert into skiplane.timer_far select * from skiplane.timer")
    conn.execute("delete from skiplane.ready")
    assert sorted(len(row[1]) for row in misplaced(dsn)) == [1, 1, 2]


def test_a_fire_that_is_lost_doubled_or_without_its_task_is_seen(conn: Connection, rules: Any):
    conn.execute("select skiplane.create_cron_task('s', '* * * * * *', 'tick')")
    conn.execute(
        "insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome, task_id)"
        " select id, t, 0, skiplane._fire_day(skiplane.clock()), t, 'fired', gen_random_uuid()"
        " from skiplane.schedule, unnest(array['2030-01-01Z', '2030-01-01 00:00:05Z']"
        "::timestamptz[]) t"
    )
    task_id = end(conn, "tick")
    conn.execute(
        """update skiplane.task set metadata = '{"cron_id": "x"}' where id = %s""", [task_id]
    )
    wrong = {
        "no fire was lost: each schedule has one for each second",
        "a fire has its task, and a task its fire",
        "no schedule stopped",
    }
    assert rules() == wrong


def test_a_fire_that_happened_twice_is_seen(conn: Connection, rules: Any):
    conn.execute("select skiplane.create_cron_task('s', '* * * * * *', 'tick')")
    conn.execute("update skiplane.schedule set status = 'PAUSED'")
    conn.execute("select skiplane._make_partition('fire', '2030-01-01')")
    for day in ("skiplane._fire_day(skiplane.clock())", "date '2030-01-01'"):
        conn.execute(
            "insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome)"
            f" select id, '2030-01-01Z', 0, {day}, '2030-01-01Z', 'skipped'"
            " from skiplane.schedule".encode()
        )
    assert "a fire happened once" in rules()


def submit_graph(conn: Connection) -> list[str]:
    """Submit a workflow of two tasks, and give their ids."""
    spec = [
        {"name": "a", "task_type": "quick"},
        {"name": "b", "task_type": "quick", "dependencies": ["a"]},
    ]
    row = conn.execute(
        "select skiplane.submit_workflow('w', %s, 'key')", [json.dumps(spec)]
    ).fetchone()
    assert row is not None
    tasks.mark("workflow_acknowledged", row[0]["workflow_id"], "key")
    return [task["task_id"] for task in row[0]["tasks"]]


def end_any(conn: Connection) -> None:
    """Claim and finish a task."""
    worker = uuid.uuid4()
    row = conn.execute(
        "select lease_id, tasks from skiplane.claim_tasks(%s, '{default}')", [worker]
    ).fetchone()
    assert row is not None
    conn.execute(
        "select skiplane.finish_tasks(%s, %s, array[%s::uuid], array['1'])",
        [worker, row[0], json.loads(row[1])[0]["task_id"]],
    )


def test_a_stuck_workflow_is_seen(conn: Connection, dsn: str, rules: Any):
    submit_graph(conn)
    end_any(conn)
    assert not misplaced(dsn)
    assert rules() == {
        "a task has exactly one outcome",
        "every workflow has ended, counted right, with the state that its tasks tell",
        "nothing is left in ready",
    }


def test_a_wrong_end_in_a_workflow_is_seen(conn: Connection, rules: Any):
    first, _ = submit_graph(conn)
    end_any(conn)
    end_any(conn)
    conn.execute("update skiplane.outcome set status = 'DEAD' where id = %s", [first])
    assert rules() >= {
        "every workflow has ended, counted right, with the state that its tasks tell",
        "a task of a workflow ran when its dependencies let it, and else ended because of them",
    }


def test_more_than_a_limit_lets_run_are_seen(dsn: str, conn: Connection):
    set_limits(conn)
    for _ in range(CONCURRENCY["pooled"]):
        conn.execute("select from skiplane.submit_task('pooled')")
    claim = "select from skiplane.claim_tasks(gen_random_uuid(), '{default}', 9)"
    conn.execute(claim)
    assert not exceeded(dsn)
    conn.execute("update skiplane.task_type_setting set concurrency = concurrency - 1")
    assert [row[0] for row in exceeded(dsn)] == ["pooled"]


def test_a_leaked_or_doubled_place_is_seen(dsn: str, conn: Connection):
    set_limits(conn)
    conn.execute("select from skiplane.submit_task('pooled')")
    end_any(conn)
    assert not leaked(conn)
    assert not exceeded(dsn)
    conn.execute("update skiplane.gate_state set held = held + 1 where gate = 'type|pooled'")
    assert [row[0] for row in leaked(conn)] == ["type|pooled"]
    assert [row[1] for row in exceeded(dsn)] == [1]
