"""The receiver in docs/webhooks.md takes what is genuine, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from skiplane.worker.builtin.deliver import sign

PAGE = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def names() -> dict[str, Any]:
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    made: dict[str, Any] = {"__name__": "receiver"}
    exec(compile(block, str(PAGE), "exec"), made)
    return made


def test_the_signature_is_that_of_standard_webhooks():
    # The example of the specification's own libraries.
    body = b'{"test": 2432232314}'
    signature = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("change", "genuine"),
    [
        ({}, True),
        ({"webhook-id": "other"}, False),
        ({"webhook-timestamp": "1614265331"}, False),
        ({"webhook-timestamp": "soon"}, False),
        ({"webhook-signature": "v1,AAAA"}, False),
        ({"webhook-signature": ""}, False),
    ],
)
def test_the_receiver_knows_what_is_genuine(
    names: dict[str, Any], change: dict[str, str], genuine: bool
):
    body = b'{"type": "task.succeeded"}'
    headers = {
        "webhook-id": "id",
        "webhook-timestamp": "1614265330",
        "webhook-signature": sign(SECRET, "id", 1614265330, body),
    }
    assert names["is_genuine"](SECRET, {**headers, **change}, body, 1614265400) is genuine
    assert not names["is_genuine"](SECRET, headers, body + b" ", 1614265400)
    assert not names["is_genuine"](SECRET, headers, body, 1614265330 + 301)
