"""What stands in a new server: our role and our database."""

from typing import LiteralString

import psycopg
from psycopg import sql

from .folder import Address

USER = DATABASE = "skiplane"
SUPERUSER = "postgres"


def connect(
    address: Address, user: str = SUPERUSER, database: str = SUPERUSER
) -> psycopg.Connection:
    """Connect over the socket, in autocommit.

    Raises:
        psycopg.OperationalError: Nothing answers there, or not yet.
    """
    # All that libpq would take from the environment and that breaks a socket.
    return psycopg.connect(
        host=address.socket_folder,
        port=address.port,
        user=user,
        dbname=database,
        connect_timeout=5,
        sslmode="disable",
        gssencmode="disable",
        target_session_attrs="any",
        options="",
        autocommit=True,
    )


def answers(address: Address, user: str = SUPERUSER, database: str = SUPERUSER) -> bool:
    """Tell whether a server answers there and has that user and database."""
    try:
        connect(address, user, database).close()
    except psycopg.OperationalError:
        return False
    return True


def prepare_database(address: Address, password: str | None) -> None:
    """Make the role and the database that are missing.

    Args:
        address: A server that answers.
        password: For connections over TCP; None leaves it as it is.
    """
    with connect(address) as connection:
        if not _exists(connection, "select 1 from pg_roles where rolname = %s", USER):
            connection.execute(
                sql.SQL("create role {} login createdb createrole in role pg_monitor").format(
                    sql.Identifier(USER)
                )
            )
        if password is not None:
            _set_password(connection, password)
        # Last: whoever attaches takes the database for the sign that all is done.
        if not _exists(connection, "select 1 from pg_database where datname = %s", DATABASE):
            connection.execute(
                sql.SQL("create database {} owner {}").format(
                    sql.Identifier(DATABASE), sql.Identifier(USER)
                )
            )


def _exists(connection: psycopg.Connection, query: LiteralString, name: str) -> bool:
    return connection.execute(query, [name]).fetchone() is not None


def _set_password(connection: psycopg.Connection, password: str) -> None:
    for role in (SUPERUSER, USER):
        # Hashed here: a server that logs statements would log the password.
        secret = connection.pgconn.encrypt_password(
            password.encode(), role.encode(), b"scram-sha-256"
        )
        connection.execute(
            sql.SQL("alter role {} password {}").format(
                sql.Identifier(role), sql.Literal(secret.decode())
            )
        )
