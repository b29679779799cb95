"""The examples run as they stand."""

import asyncio
import importlib.util
import random
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from skiplane import Status
from skiplane.testing import FakeAttempt, drain, run_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SKIPLANE_DSN", dsn)
    return dsn


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the mail server rolls; below 0.1 it is busy."""
    rolls = [0.0]
    monkeypatch.setattr(random, "random", lambda: rolls.pop() if rolls else 1.0)
    return rolls


def test_every_example_has_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "emails",
        "etl_checkpoint",
        "exactly_once",
        "nightly",
    }


@pytest.mark.usefixtures("mail_server")
async def test_a_welcome_survives_a_busy_mail_server(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    emails = load("emails")
    running = asyncio.create_task(emails.main("ann@example.com"))
    while not running.done():
        await drain(emails.app, ahead=60)
    await running
    said = capsys.readouterr().out
    assert "to ann@example.com: Welcome, friend!" in said
    assert "delivered" in said


async def test_no_welcome_without_an_account(database: str) -> None:
    emails = load("emails")
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await connection.execute("create table account (email text primary key)")
        await emails.register(connection, "ann@example.com")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await emails.register(connection, "ann@example.com")
    assert len(await emails.app.list()) == 1
    await emails.app.close()


@pytest.mark.usefixtures("mail_server")
async def test_a_bad_address_is_not_tried_again(database: str) -> None:
    emails = load("emails")
    async with emails.app:
        handle = await emails.send_welcome.submit(to="nobody")
        await drain(emails.app)
        assert await handle.status() is Status.FAILED


async def test_an_import_goes_on_where_it_stopped() -> None:
    etl = load("etl_checkpoint")
    attempt = FakeAttempt(attempt=2, checkpoint={"page": 15, "rows": 750})
    result = await run_task(etl.import_orders, source="shop", ctx=attempt)
    assert result == {"rows": 1000}
    assert [saved["page"] for saved in attempt.checkpoints] == [16, 17, 18, 19, 20]
    assert attempt.reports[-1] == (1.0, "page 20 of 20")


async def test_an_import_runs_from_its_script(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    etl = load("etl_checkpoint")
    running = asyncio.create_task(etl.main())
    while not running.done():
        await drain(etl.app)
    await running
    assert "imported {'rows': 1000}" in capsys.readouterr().out


async def test_money_is_moved_once(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = load("exactly_once")
    running = asyncio.create_task(ledger.main())
    while not running.done():
        await drain(ledger.app)
    await running
    assert "('ann', Decimal('87.50')), ('bob', Decimal('12.50'))" in capsys.readouterr().out
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        handle = await ledger.transfer.submit("ann", "nobody", Decimal(1))
        await drain(ledger.app)
        assert await handle.status() is Status.FAILED
        cursor = await connection.execute("select amount from balance where account = 'ann'")
        assert await cursor.fetchone() == (Decimal("87.50"),)
    await ledger.app.close()


@pytest.mark.parametrize(("roll", "said"), [(1.0, "180 orders from 4 shops"), (0.0, "'north'")])
async def test_a_nightly_import_reports_or_raises_the_alarm(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    roll: float, said: str,
) -> None:  # fmt: skip
    nightly = load("nightly")
    monkeypatch.setattr(nightly.random, "random", lambda: roll)
    running = asyncio.create_task(nightly.main())
    while not running.done():
        await drain(nightly.app, ahead=600)
    await running
    assert said in capsys.readouterr().out
    [alarm] = await nightly.app.list(task_type="alarm")
    assert alarm.status == ("CANCELLED" if roll else "SUCCEEDED")
    assert alarm.result is None or set(alarm.result) <= set(nightly.SHOPS)
    await nightly.app.close()
