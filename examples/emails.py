"""A welcome e-mail that is sent exactly when the account exists.

    skiplane up                                    in one terminal, or set SKIPLANE_DSN
    skiplane worker --app emails --queues email    in a second, in this folder
    python emails.py ann@example.com               in a third

The account and the wish to greet its owner are committed together: no account
without a greeting, and no greeting for an account that was rolled back.
"""

import asyncio
import random
import sys

import psycopg

from skiplane import Context, Skiplane

app = Skiplane()


class NoSuchMailbox(Exception):
    """The address will never work."""


class MailServerBusy(Exception):
    """It may work later."""


@app.task(
    "send_welcome",
    queue="email",
    max_retries=5,
    retry_delay=2,
    timeout=30,
    permanent_errors=(NoSuchMailbox,),
)
async def send_welcome(ctx: Context, to: str, name: str = "friend") -> str:
    """Greet somebody; gives the message's id."""
    if "@" not in to:
        raise NoSuchMailbox(to)
    await deliver(to, f"Welcome, {name}!", message_id=ctx.task_id)
    ctx.log.info("welcomed", to=to)
    return ctx.task_id


async def deliver(to: str, text: str, message_id: str) -> None:
    """Stand in for a mail server, which is busy now and then."""
    await asyncio.sleep(0.01)
    if random.random() < 0.1:
        raise MailServerBusy(to)
    # The task's id is the message's: a server that has seen it drops the second
    # copy, which a retry after a lost answer would send.
    print(f"{message_id} to {to}: {text}")


async def register(connection: psycopg.AsyncConnection, email: str) -> str:
    """Create an account and submit its welcome, in one transaction."""
    async with connection.transaction():
        await connection.execute("insert into account (email) values (%s)", [email])
        handle = await send_welcome.submit(to=email, connection=connection)
    return str(handle.id)


async def main(email: str) -> None:
    async with app, await psycopg.AsyncConnection.connect(app.dsn, autocommit=True) as connection:
        await connection.execute("create table if not exists account (email text primary key)")
        task_id = await register(connection, email)
        print("submitted", task_id)
        print("delivered", await app.handle(task_id).result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
