"""A link lasts longer than its connection, and an outage is said once."""

import asyncio
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from skiplane.scheduler.link import LinkLost, Outage
from skiplane.schema.connect import AsyncConnection
from skiplane.tests.scheduler.helpers import linked
from skiplane.tests.support import Databases, wait_until_async
from skiplane.tests.worker.proxy import proxy_before

HOSTILE = """
alter role {0} set statement_timeout = '5s';
alter role {0} set lock_timeout = '1s';
alter role {0} set idle_in_transaction_session_timeout = '10s';
alter role {0} set idle_session_timeout = '60s';
alter role {0} set default_transaction_isolation = 'serializable';
alter role {0} set default_transaction_read_only = 'on';
"""


async def value(conn: AsyncConnection, query: str) -> Any:
    row = await (await conn.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]


async def assert_our_settings(conn: AsyncConnection) -> None:
    assert await value(conn, "show transaction_isolation") == "read committed"
    assert await value(conn, "show statement_timeout") == "45s"
    assert await value(conn, "show lock_timeout") == "2s"
    assert await value(conn, "show idle_in_transaction_session_timeout") == "0"
    assert await value(conn, "show synchronous_commit") == "off"


async def test_settings_of_a_hostile_role_do_not_count(databases: Databases):
    with databases.fresh() as name, databases.role() as role:
        with databases.admin() as admin:
            for line in HOSTILE.format(role.name).strip().splitlines():
                admin.execute(line.encode())
        async with linked(databases.dsn(name, role)) as link, link.session() as conn:
            await assert_our_settings(conn)
            assert await value(conn, "show transaction_read_only") == "off"
            assert await value(conn, "show idle_session_timeout") == "0"


async def test_settings_hold_behind_a_pooler_and_leak_to_nobody(pooled: str):
    async with linked(pooled) as link:
        for _ in range(10):
            async with link.session() as conn:
                await assert_our_settings(conn)
    async with await psycopg.AsyncConnection.connect(pooled, prepare_threshold=None) as other:
        assert await value(other, "show synchronous_commit") != "off"
        assert await value(other, "show lock_timeout") == "0"


async def test_error_ends_the_session_and_the_next_one_works(dsn: str):
    async with linked(dsn) as link:
        async with link.session() as conn:
            first = conn.info.backend_pid
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with link.session() as conn:
                await conn.execute("select 1/0")
        async with link.session() as conn:
            assert conn.info.backend_pid != first


async def test_lost_connection_is_replaced_and_said_once(
    dsn: str, conn: psycopg.Connection[tuple[Any, ...]]
):
    async with linked(dsn) as link:
        with capture_logs() as logs:
            async with link.session() as mine:
                pid = mine.info.backend_pid
            conn.execute("select pg_terminate_backend(%s, 5000)", [pid])
            with pytest.raises(LinkLost):
                async with link.session() as mine:
                    await mine.execute("select 1")
            async with link.session() as mine:
                assert await value(mine, "select 1") == 1
    assert [line["event"] for line in logs] == ["a lost connection was replaced"]


async def test_outage_is_one_line_for_all_links_and_one_when_it_is_over(dsn: str):
    outage = Outage()
    with proxy_before(dsn) as proxy:
        async with linked(proxy.dsn, outage) as first, linked(proxy.dsn, outage) as second:
            for link in (first, second):
                async with link.session():
                    pass
            with capture_logs() as logs:
                proxy.cut()
                for link in (first, second):
                    with pytest.raises(LinkLost):
                        async with link.session() as conn:
                            await conn.execute("select 1")
                waiting = [asyncio.create_task(use(link)) for link in (first, second)]
                await wait_until_async(lambda: logs, what="the outage to be noticed")
                # Long enough for every link to fail a few times more.
                await asyncio.sleep(0.5)
                assert first.away
                proxy.restore()
                async with asyncio.timeout(10):
                    await asyncio.gather(*waiting)
    assert [line["event"] for line in logs] == [
        "the database is away; trying until it is back",
        "the database is back",
    ]


async def use(link: Any) -> None:
    async with link.session() as conn:
        await conn.execute("select 1")


async def test_session_has_one_user_at_a_time(dsn: str):
    inside = 0

    async def enter(link: Any) -> None:
        nonlocal inside
        async with link.session() as conn:
            inside += 1
            await conn.execute("select pg_sleep(0.01)")
            assert inside == 1
            inside -= 1

    async with linked(dsn) as link:
        await asyncio.gather(*(enter(link) for _ in range(10)))
