"""Reading what a claim gives."""

import pytest

from skiplane.worker.document import decode_tasks

ID = "01234567-89ab-cdef-8123-456789abcde{}"


def task(number: int, payload: str, more: str = "") -> str:
    """Give one task as the engine writes it."""
    return (
        f'{{"task_id":"{ID.format(number)}","task_type":"t","attempt":1,"fence":1,'
        f'"queue":"q","payload":{payload}{more}}}'
    )


def test_values_inside_stay_as_they_came():
    more = ',"metadata":{"a": 1},"checkpoint":[1],"timeout_seconds":2.5,"max_retries":3'
    (found,), broken = decode_tasks("[" + task(1, '{"x": 1}', more) + "]")
    assert not broken
    assert bytes(found.payload) == b'{"x": 1}'
    assert found.metadata is not None
    assert bytes(found.metadata) == b'{"a": 1}'
    assert found.checkpoint is not None
    assert bytes(found.checkpoint) == b"[1]"
    assert found.timeout_seconds == 2.5


def test_what_is_absent_has_its_default():
    (found,), _ = decode_tasks(f"[{task(1, '{}')}]")
    assert (found.metadata, found.checkpoint, found.tenant_id) == (None, None, "default")


@pytest.mark.parametrize("payload", ["[" * 6000 + "]" * 6000, '{"a":' * 6000 + "1" + "}" * 6000])
def test_a_deep_payload_costs_its_own_task_only(payload: str):
    tricky = '{"text": "]}, \\"task_id\\": [{ \\\\"}'
    good, broken = decode_tasks(f"[{task(1, tricky)},{task(2, payload)},{task(3, '5')}]")
    assert [found.task_id for found in good] == [ID.format(1), ID.format(3)]
    assert bytes(good[0].payload).decode() == tricky
    assert [task_id for task_id, _ in broken] == [ID.format(2)]
