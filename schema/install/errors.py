"""Why a migration stops. Each message is one sentence or two for an operator."""

import psycopg

from ..errors import SkiplaneError


class MigrationError(SkiplaneError):
    """The migration was not done; the database is as it was."""

    code = "migration_failed"


class SchemaTooNew(MigrationError):
    """A newer release of Skiplane has changed this database."""

    code = "schema_too_new"


class SchemaMissing(MigrationError):
    """The schema is not installed, or older than this release needs."""

    code = "schema_missing"


class ServerTooOld(MigrationError):
    """The server is older than PostgreSQL 15."""

    code = "server_too_old"


class LockTimeout(MigrationError):
    """Another session held what the migration needed; run it again later."""

    code = "lock_timeout"


class SqlFileError(MigrationError):
    """A statement of the installation failed; the driver's error is the cause."""

    code = "sql_failed"


def failed_in(where: str, text: str, error: psycopg.Error) -> SqlFileError:
    """Say where a statement failed and what the server said.

    Args:
        where: The file, or what was being done.
        text: The SQL that was sent, to turn a position into a line.
        error: What the server said.
    """
    diag = error.diag
    position = int(diag.statement_position or 0)
    line = f" line {text.count(chr(10), 0, position) + 1}" if position else ""
    details = [diag.message_primary or str(error), detail(error), diag.context]
    return SqlFileError(f"{where}{line}: {'; '.join(part for part in details if part)}")


def detail(error: psycopg.Error) -> str | None:
    """Give the server's detail in one line."""
    text = error.diag.message_detail
    return text and "; ".join(text.splitlines())
