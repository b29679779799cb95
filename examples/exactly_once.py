"""A payment that is booked exactly once, whatever crashes.

    skiplane worker --app exactly_once --queues ledger     in this folder
    python exactly_once.py

Delivery is at least once: a worker may die after it has done the work and before
it has said so. Inside ``ctx.transaction()`` the bookings and the task's success
are one commit in one database, so there is no such gap. When the attempt has
lost its task in the meantime, the block ends with LeaseLost and is rolled back.
"""

import asyncio
from decimal import Decimal

import psycopg

from skiplane import Context, PermanentError, Skiplane

app = Skiplane()

SCHEMA = """
create table if not exists balance (account text primary key, amount numeric not null);
insert into balance values ('ann', 100), ('bob', 0) on conflict do nothing;
"""


@app.task("transfer", queue="ledger", max_retries=10, timeout=30)
async def transfer(ctx: Context, source: str, target: str, amount: Decimal) -> None:
    """Move money from one account to another."""
    async with ctx.transaction() as connection:
        await book(connection, source, -amount)
        await book(connection, target, amount)
        # What the function returns comes after the commit, and so too late.
        ctx.set_result({"moved": amount})


async def book(connection: psycopg.AsyncConnection, account: str, amount: Decimal) -> None:
    """Change one balance."""
    changed = await connection.execute(
        "update balance set amount = amount + %s where account = %s and amount + %s >= 0",
        [amount, account, amount],
    )
    if changed.rowcount == 0:
        # Rolls back, and no retry would help.
        raise PermanentError(f"{account} has too little money, or no account")


async def main() -> None:
    async with app, await psycopg.AsyncConnection.connect(app.dsn, autocommit=True) as connection:
        await connection.execute(SCHEMA)
        handle = await transfer.submit(source="ann", target="bob", amount=Decimal("12.50"))
        await handle.result(timeout=60)
        cursor = await connection.execute("select account, amount from balance order by 1")
        print(await cursor.fetchall())


if __name__ == "__main__":
    asyncio.run(main())
