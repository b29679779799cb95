"""The requests in docs/api.md run, in the order in which they stand."""

import json
import re
from pathlib import Path

import httpx

from skiplane.web.contract import OPERATIONS
from skiplane.web.problems import CODES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```http\n(.*?)^```", PAGE, re.M | re.S)


def test_requests_are_answered_as_shown(client: httpx.Client):
    task_id = ""
    for block in BLOCKS:
        head, *bodies, answer = block.strip().split("\n\n")
        line, *headers = head.splitlines()
        method, path = line.split()
        told = client.request(
            method,
            path.replace("{task_id}", task_id),
            content=bodies[0] if bodies else None,
            headers={
                **({"content-type": "application/json"} if bodies else {}),
                **dict(header.split(": ") for header in headers),
            },
        )
        status, _, fields = answer.partition(" ")
        assert told.status_code == int(status), (line, told.text)
        assert set(json.loads(f"[{fields.strip('{}')}]")) <= set(told.json())
        task_id = told.json().get("task_id", task_id)
    assert len(BLOCKS) >= 10


def test_page_names_every_code_and_every_route():
    for code, (status, _) in CODES.items():
        assert re.search(rf"\| {status} \|[^\n]*`{code}`", PAGE), code
    for _, path in OPERATIONS:
        assert path.removeprefix("/api/v1") in PAGE, path
