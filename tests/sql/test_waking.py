"""Waking workers: a notification only when one waits for that queue."""

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Connection, Engine

Pair = tuple[Connection, Connection]


def notices(sender: Connection, listener: Connection) -> list[str]:
    """Give the channels of all that was sent until now: notifications come in their order."""
    sender.execute("select pg_notify('that_is_all', '')")
    channels: list[str] = []
    while channels[-1:] != ["that_is_all"]:
        channels += [notice.channel for notice in listener.notifies(timeout=30, stop_after=1)]
    return channels[:-1]


def listen(conn: Connection, *queues: str) -> list[str]:
    """Listen as a worker does, without waiting yet; give the channels."""
    worker = Engine(conn)
    channels = [worker.one("select skiplane.queue_channel(%s)", [queue]) for queue in queues]
    conn.execute("listen that_is_all")
    for channel in channels:
        conn.execute(f"listen {channel}".encode())
    return channels


def wait_for(conn: Connection, *queues: str) -> None:
    conn.execute("select skiplane.wait_for_work(%s)", [list(queues)])


ARRIVALS: list[Callable[[Engine], object]] = [
    lambda engine: engine.submit(queue="q"),
    lambda engine: engine.many(3, queue="q"),
    lambda engine: engine.rows("submit_tasks", tasks='[{"task_type": "a", "queue": "q"}]'),
]


@pytest.mark.parametrize("arrive", ARRIVALS)
def test_submit_notifies_only_who_waits(two: Pair, arrive: Callable[[Engine], object]):
    producer, worker = Engine(two[0]), two[1]
    [channel] = listen(worker, "q")
    arrive(producer)
    wait_for(worker, "other")
    arrive(producer)
    assert notices(two[0], worker) == []
    wait_for(worker, "q")
    arrive(producer)
    assert notices(two[0], worker) == [channel]
    worker.execute("select skiplane.stop_waiting(%s)", [["q"]])
    arrive(producer)
    assert notices(two[0], worker) == []


def test_waiting_twice_ends_at_once(two: Pair):
    producer, worker = Engine(two[0]), two[1]
    listen(worker, "q", "other")
    wait_for(worker, "q", "other", "q")
    wait_for(worker, "q")
    worker.execute("select skiplane.stop_waiting(%s)", [["q"]])
    assert producer.one("select skiplane._is_waited_for('q')") is False
    assert producer.one("select skiplane._is_waited_for('other')") is True


def test_waiting_ends_with_the_session(dsn: str, live: Engine):
    with psycopg.connect(dsn, autocommit=True) as worker:
        wait_for(worker, "q")
        assert live.one("select skiplane._wake('q')") is True
    wait_until(lambda: not live.one("select skiplane._wake('q')"))


def test_every_other_arrival_wakes_as_well(two: Pair):
    """Released, retried, edited, lost, promoted: each is work for who waits."""
    engine, worker = Engine(two[0]), two[1]
    [channel] = listen(worker, "default")
    task_id = engine.submit(retry_delay_seconds=0)
    wait_for(worker, "default")

    def wakes(step: Callable[[], object]) -> bool:
        step()
        return channel in notices(two[0], worker)

    claim = engine.claim()
    assert wakes(lambda: engine.fail(claim, "release"))
    claim = engine.claim()
    assert wakes(lambda: engine.fail(claim))
    engine.claim()
    assert wakes(lambda: engine.value("release_worker", worker_id=engine.worker))
    engine.value("cancel_task", task_id=task_id)
    assert wakes(lambda: engine.value("retry_task", task_id=task_id))
    engine.value("edit_task", task_id=task_id, version=1, changes={"delay_seconds": 5})
    engine.skip(6)
    assert wakes(lambda: engine.value("promote_tasks"))


def test_scheduler_wakes_queues_with_both_work_and_waiting(two: Pair):
    engine, worker = Engine(two[0]), two[1]
    channels = listen(worker, "a", "b", "c")
    for queue in ("a", "c"):
        engine.submit(queue=queue)
    assert engine.value("wake_workers") == 0
    wait_for(worker, "a", "b")
    assert engine.value("wake_workers") == 1
    assert notices(two[0], worker) == [channels[0]]
    engine.claim(queues=["a"])
    assert engine.value("wake_workers") == 0


@pytest.mark.parametrize(
    "queue", ["x" * 200, "é" * 100, 'quo"te', "semi;colon", "UPPER lower", "🚀"]
)
def test_odd_queue_names_wake(two: Pair, queue: str):
    engine, worker = Engine(two[0]), two[1]
    [channel] = listen(worker, queue)
    wait_for(worker, queue)
    engine.submit(queue=queue)
    assert notices(two[0], worker) == [channel]


def test_bulk_sends_one_notification(two: Pair):
    engine, worker = Engine(two[0]), two[1]
    listen(worker, "q")
    wait_for(worker, "q")
    engine.many(10_000, queue="q")
    assert len(notices(two[0], worker)) == 1


def test_transaction_that_will_be_prepared_can_do_without(two: Pair):
    engine, worker = Engine(two[0]), two[1]
    listen(worker, "q")
    wait_for(worker, "q")
    two[0].execute("set skiplane.notify = off")
    engine.submit(queue="q")
    assert notices(two[0], worker) == []
    assert engine.value("wake_workers") == 1


def test_draining_is_told_on_the_channel_of_the_worker(two: Pair):
    engine, listener = Engine(two[0]), two[1]
    listen(listener)
    channel = engine.one("select skiplane.worker_channel(%s)", [engine.worker])
    listener.execute(f"listen {channel}".encode())
    engine.value("register_worker", worker_id=engine.worker, name="w", queues=["q"])
    engine.value("drain_worker", worker_id=engine.worker)
    assert notices(two[0], listener) == [channel]
    engine.value("drain_worker", worker_id=uuid.uuid4())
    assert notices(two[0], listener) == []


def test_late_commit_wakes_who_began_to_wait_meanwhile(two: Pair, dsn: str):
    engine, worker = Engine(two[0]), two[1]
    [channel] = listen(worker, "q")
    states: list[Any] = [None]

    def look() -> None:
        state = Jsonb(states[-1]) if states[-1] else None
        states.append(engine.one("select skiplane.refresh_lanes(%s::jsonb)", [state]))

    def writer_is_old() -> bool:
        look()
        ages = """
            select coalesce(
                extract(epoch from clock_timestamp() - min(value::timestamptz)), 0)::float8
            from jsonb_each_text(%s::jsonb -> 'writers')
        """
        return float(engine.one(ages, [Jsonb(states[-1])])) > 2.2

    look()
    with psycopg.connect(dsn) as producer:
        Engine(producer).submit(queue="q")
        wait_for(worker, "q")
        wait_until(writer_is_old, timeout=15)
        producer.commit()
    look()
    assert channel in notices(two[0], worker)
