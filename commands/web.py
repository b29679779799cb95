"""skiplane web"""

import rich_click as click

from ..config import Config
from ..log import setup_logging
from .options import configured
from .output import fail, find_dsn

DEFAULT_PORT = 8080


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Web processes on the port.",
)
@click.option(
    "--connections",
    type=click.IntRange(2, 100),
    default=8,
    show_default=True,
    help="Database connections of each process.",
)
@configured("dsn", "prepare", "log_format", "log_level")
def web(config: Config, host: str, port: int, processes: int, connections: int) -> None:
    """Serve the REST API.

    Every route but the probes needs an API key: `skiplane keys create`. The contract
    is at /openapi.json. A database that is away it waits for, answering 503 meanwhile.
    SIGTERM and Ctrl-C stop it: open streams end, requests in work are answered.
    """
    from ..web.serve import bind, serve
    from ..web.settings import WebSettings

    setup_logging(config)
    settings = WebSettings(
        dsn=find_dsn(config),
        prepare=config.prepare,
        connections=connections,
        log_format=config.log_format,
        log_level=config.log_level,
    )
    try:
        bound = bind(host, port, processes)
    except OSError as error:
        fail(f"Cannot listen on {host}:{port}: {error.strerror}. Give another --host or --port.")
    with bound:
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{bound.getsockname()[1]}")
        serve(settings, bound, processes)
