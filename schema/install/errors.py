"""Why a migration stops. Each message is one sentence or two for an operator."""

import psycopg


class MigrationError(Exception):
    """The migration was not done; the database is as it was."""


class SchemaTooNew(MigrationError):
    """A newer release of Skiplane has changed this database."""


class SchemaMissing(MigrationError):
    """The schema is not installed, or older than this release needs."""


class ServerTooOld(MigrationError):
    """The server is older than PostgreSQL 15."""


class LockTimeout(MigrationError):
    """Another session held what the migration needed; run it again later."""


class SqlFileError(MigrationError):
    """A statement of the installation failed.

    Args:
        where: The file, or what was being done.
        text: The SQL that was sent, to turn a position into a line.
        error: What the server said.
    """

    def __init__(self, where: str, text: str, error: psycopg.Error) -> None:
        diag = error.diag
        position = int(diag.statement_position or 0)
        line = f" line {text.count(chr(10), 0, position) + 1}" if position else ""
        details = [diag.message_primary or str(error), diag.message_detail, diag.context]
        super().__init__(f"{where}{line}: {'; '.join(part for part in details if part)}")
