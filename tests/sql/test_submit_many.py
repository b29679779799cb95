"""Submitting lists: all or nothing, in order, every refusal with its place."""

import json
import uuid
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine, refused


def submit_tasks(engine: Engine, tasks: Any) -> list[tuple[Any, ...]]:
    return engine.rows("submit_tasks", tasks=Jsonb(tasks))


def test_mixed_list_answers_one_row_per_task_in_order(engine: Engine):
    rows = submit_tasks(
        engine,
        [
            {"task_type": "b", "payload": {"n": 0}},
            {"task_type": "a", "delay_seconds": 60},
            {"task_type": "b", "payload": None, "priority": "high"},
            {"task_type": "b", "payload": [3], "queue": None, "metadata": None},
        ],
    )
    assert [(row[0], row[2], row[5]) for row in rows] == [
        (1, "PENDING", False),
        (2, "SCHEDULED", False),
        (3, "PENDING", False),
        (4, "PENDING", False),
    ]
    shown = [engine.get(row[1]) for row in rows]
    assert [task["payload"] for task in shown] == [{"n": 0}, {}, None, [3]]
    assert [task["task_type"] for task in shown] == ["b", "a", "b", "b"]


def test_empty_lists_store_nothing(engine: Engine):
    assert submit_tasks(engine, []) == []
    assert engine.many(0) == []
    assert engine.one("select count(*) from skiplane.lane") == 0


@pytest.mark.parametrize("tasks", [None, {}, "text", 5])
def test_what_is_no_array_is_refused(engine: Engine, tasks: Any):
    with refused(engine.conn, "SK001", "tasks"):
        submit_tasks(engine, tasks)


@pytest.mark.parametrize("element", [1, "a", None, [1], True])
def test_what_is_no_object_is_refused(engine: Engine, element: Any):
    with refused(engine.conn, "SK001", "task", json.dumps(element)):
        submit_tasks(engine, [{"task_type": "a"}, element])


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ({}, "task_type"),
        ({"task_type": 5}, "task_type"),
        ({"task_type": "a", "bogus": 1}, "bogus"),
        ({"task_type": "a", "p_queue": "x"}, "p_queue"),
        ({"task_type": "a", "priority": 5}, "priority"),
        ({"task_type": "a", "max_retries": "3"}, "max_retries"),
        ({"task_type": "a", "max_retries": 1.5}, "max_retries"),
        ({"task_type": "a", "max_retries": 2147483648}, "max_retries"),
        ({"task_type": "a", "delay_seconds": True}, "delay_seconds"),
        ({"task_type": "a", "delay_seconds": 1, "scheduled_at": "2030-01-01T00:00:00Z"}, None),
        ({"task_type": "a", "metadata": [1]}, "metadata"),
        ({"task_type": "a", "metadata": "x"}, "metadata"),
        ({"task_type": "a", "idempotency_key": 5}, "idempotency_key"),
        ({"task_type": "a", "idempotency_key": ""}, "idempotency_key"),
        ({"task_type": "a", "payload": "1" * 1048577}, "tasks[1].payload"),
    ],
)
def test_bad_fields_are_refused_and_nothing_is_stored(
    engine: Engine, task: dict[str, Any], field: str | None
):
    sqlstate = "SK007" if field == "tasks[1].payload" else "SK001"
    with refused(engine.conn, sqlstate, field):
        submit_tasks(engine, [{"task_type": "good"}, task])
    assert engine.one("select count(*) from skiplane.task") == 0


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400])
@pytest.mark.parametrize("field", ["delay_seconds", "max_retries", "timeout_seconds"])
def test_numbers_beyond_any_machine_are_refused(engine: Engine, field: str, number: str):
    with refused(engine.conn, "SK001", field):
        engine.one(
            "select skiplane.submit_tasks(%s::jsonb)",
            [f'[{{"task_type": "a", "{field}": {number}}}]'],
        )


@pytest.mark.parametrize(
    "text",
    [
        "2030-07-01T09:00:00",
        "2030-07-01",
        "tomorrow",
        "infinity",
        "-infinity",
        "2030-02-30T00:00:00Z",
        "2030-01-01T25:00:00Z",
        "2030-01-01T00:00:00+99:99",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "10000-01-01T00:00:00Z",
        "2030-07-01T09:00:00 Europe/Berlin",
        "",
        5,
    ],
)
@pytest.mark.parametrize("field", ["scheduled_at", "expires_at"])
def test_times_without_an_offset_or_out_of_range_are_refused(engine: Engine, field: str, text: Any):
    with (
        refused(engine.conn, "SK001", field, str(text))
        if isinstance(text, int)
        else refused(engine.conn, "SK001", field)
    ):
        submit_tasks(engine, [{"task_type": "a", field: text}])


def test_offsets_are_honoured(engine: Engine):
    engine.conn.execute("set local timezone = 'America/New_York'")
    day = engine.one("select (skiplane._utc_day(skiplane.clock()) + 1)::text")
    rows = submit_tasks(
        engine,
        [
            {"task_type": "a", "scheduled_at": f"{day}T{time}"}
            for time in ("12:00:00Z", "12:00:00z", "13:30:00+01:30", "07:00:00.000000-05:00")
        ],
    )
    assert {engine.get(row[1])["scheduled_at"] for row in rows} == {f"{day}T12:00:00.000000Z"}


def test_batch_keeps_payload_texts_as_they_are(engine: Engine):
    texts = ['{"b": 1, "a": 2}', " [1.0, 1e2] ", '"\\u00e9 \\\\u0000"', "null"]
    ids = engine.value("submit_batch", task_type="work", payloads=texts)
    kept = engine.conn.execute(
        "select payload::text from skiplane.task where id = any (%s) order by id", [ids]
    )
    assert [row[0] for row in kept] == texts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "NaN",
        "Infinity",
        "{'a': 1}",
        '{"a": "x\\u0000y"}',
        '{"x\\u0000y": 1}',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        "1e400",
        "1E+00400",
        "1e140000",
        "1" * 400,
        "1" * 200 + "e200",
        "1" * 250 + "e60",
        "[" * 101 + "1" + "]" * 101,
        "[" * 20000 + "]" * 20000,
        '{"a":' * 7000 + "1" + "}" * 7000,
        "[" * 500000 + "]" * 500000,
    ],
)
def test_bad_payload_is_refused_with_its_place(engine: Engine, text: str):
    with refused(engine.conn, "SK001", "payloads[2]"):
        engine.value("submit_batch", task_type="work", payloads=["{}", '"\\ud83d\\ude00"', text])
    assert engine.one("select count(*) from skiplane.task") == 0


def test_number_that_is_nearly_nothing_is_kept(engine: Engine):
    ids = engine.value("submit_batch", task_type="work", payloads=["1e-400"])
    kept = engine.conn.execute("select payload::text from skiplane.task where id = any (%s)", [ids])
    assert kept.fetchall() == [("1e-400",)]


def test_missing_and_overlong_payloads_are_refused(engine: Engine):
    with refused(engine.conn, "SK001", "payloads[1]", "null"):
        engine.value("submit_batch", task_type="work", payloads=["1", None])
    with refused(engine.conn, "SK007", "payloads[0]", "1048577 bytes"):
        engine.value("submit_batch", task_type="work", payloads=[f'"{"x" * 1048575}"'])


def test_batch_with_another_number_of_keys_is_refused(engine: Engine):
    with refused(engine.conn, "SK001", "idempotency_keys", "1"):
        engine.value("submit_batch", task_type="a", payloads=["1", "2"], idempotency_keys=["k"])


@pytest.mark.parametrize("keyed", [True, False])
def test_ids_of_one_call_grow_in_its_order(engine: Engine, keyed: bool):
    keys = [f"k{n}" if keyed else None for n in range(40)]
    lists = [
        [
            row[1]
            for row in submit_tasks(
                engine,
                [
                    {"task_type": "a", "max_retries": n % 3, "idempotency_key": key}
                    for n, key in enumerate(keys)
                ],
            )
        ],
        engine.many(40, "b", idempotency_keys=[key and f"b{key}" for key in keys]),
        engine.many(40, "c"),
    ]
    for ids in lists:
        assert ids == sorted(ids)
    # So a single worker starts them in the order of their submission.
    assert engine.claim(40, task_types=["a"]).ids == lists[0]


def test_ids_carry_their_shard_and_day(engine: Engine):
    [task_id] = engine.many(1)
    assert task_id.version == 7
    assert engine.one("select skiplane.task_shard(%s)", [task_id]) == 0
    assert engine.one(
        "select skiplane._id_day(%s) = skiplane._utc_day(skiplane.clock())", [task_id]
    )
    labels = engine.one(
        "select array_agg(skiplane.task_shard((skiplane._new_ids(s::smallint, 1,"
        " skiplane.clock()))[1]) order by s) from unnest('{0,1,136,16383}'::int[]) s"
    )
    assert labels == [0, 1, 136, 16383]


def test_one_lane_serves_a_batch(engine: Engine):
    ids = engine.many(500, queue="bulk")
    assert len(set(ids)) == 500
    assert engine.one("select count(*) from skiplane.lane") == 1
    assert engine.claim(500, queues=["bulk"]).ids == ids


def test_batch_with_a_delay_waits_whole(engine: Engine):
    ids = engine.many(3, delay_seconds=3600)
    assert {place for task_id in ids for place in engine.places(task_id)} == {"timer"}
    assert engine.claim(10).lease_id is None
    assert all(isinstance(task_id, uuid.UUID) for task_id in ids)
