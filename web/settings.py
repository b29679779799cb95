"""What a web process is started with."""

import msgspec


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `skiplane web`.

    Attributes:
        dsn: Where PostgreSQL, or a pooler before it, is.
        prepare: Whether to use prepared statements; None: unless pooled.
        connections: Database connections of each process.
        max_body: Largest body of a request, bytes; of a batch.
        max_batch: Most tasks of one batch.
        log_format: As in Config; a new process sets its log up by itself.
        log_level: As in Config.
    """

    dsn: str
    prepare: bool | None = None
    connections: int = 8
    max_body: int = 2 * 1024 * 1024
    max_batch_body: int = 16 * 1024 * 1024
    max_batch: int = 10_000
    log_format: str = "auto"
    log_level: str = "info"
