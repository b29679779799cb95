"""The settings of one worker process."""

import msgspec


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told. Times are seconds.

    Attributes:
        app: Where the tasks are: ``module`` or ``module:attribute``; empty when there
            are none but the built-in ones.
        dsn: The database.
        listen_dsn: Address for LISTEN where ``dsn`` goes through a pooler.
        queues: The queues that it serves.
        types: The task types that it takes; empty means all that the app has.
        concurrency: Tasks that run at once, of all kinds together.
        threads: Places for tasks with mode ``thread``; 0 means as many as
            ``concurrency``.
        pool: Most pool processes for ``def`` tasks; 0 means as many as
            ``concurrency``.
        connections: Connections that claim and record.
        prepare: Whether to use prepared statements; None: unless pooled.
        lease_seconds: How long a claim holds without a heartbeat.
        grace_seconds: How long running tasks may go on after a stop.
        kill_grace_seconds: Time between asking a task to stop and forcing it.
        poll_seconds: The longest pause between two claims.
        name: What operators see.
        supervisor_id: Who started it.
        builtin_tasks: Whether it has the built-in task types.
        allow_networks: See Config.
        notify_config: See Config.
        metrics_port: Where this process tells its metrics; 0: nowhere.
        traces: See Config.
        log_format: See Config.
        log_level: See Config.
    """

    app: str
    dsn: str
    listen_dsn: str | None = None
    queues: tuple[str, ...] = ("default",)
    types: tuple[str, ...] = ()
    concurrency: int = 10
    threads: int = 0
    pool: int = 0
    connections: int = 2
    prepare: bool | None = None
    lease_seconds: float = 10.0
    grace_seconds: float = 30.0
    kill_grace_seconds: float = 5.0
    poll_seconds: float = 5.0
    name: str = "worker"
    supervisor_id: str | None = None
    builtin_tasks: bool = True
    allow_networks: str = ""
    notify_config: str = ""
    metrics_port: int = 0
    traces: bool = False
    log_format: str = "auto"
    log_level: str = "info"

    def __repr__(self) -> str:
        # Ends up in logs; a DSN may hold a password.
        return f"WorkerSettings(app={self.app!r}, queues={self.queues!r})"
