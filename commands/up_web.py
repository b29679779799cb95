"""The REST API inside `skiplane up`."""

import http.client
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

from ..config import Config
from ..schema import key_calls
from ..schema.errors import SkiplaneError
from ..web.serve import open_socket
from .children import Child
from .database import Database
from .web import DEFAULT_PORT

HOST = "127.0.0.1"
STOP_SECONDS = 6.0
# One that was killed leaves its key behind.
KEY_DAYS = 7


class Web:
    """A `skiplane web` as a child, and a key to it that goes with us.

    Attributes:
        url: Where it listens.
        key: An API key with the role admin.
        child: The process.
    """

    def __init__(self, stack: ExitStack, config: Config, db: Database) -> None:
        """Start it; the stack stops it and revokes the key."""
        self._port = _free_port()
        self.url = f"http://{HOST}:{self._port}"
        self._db = db
        drawn = key_calls.draw_key()
        expires = datetime.now(UTC) + timedelta(days=KEY_DAYS)
        db.run(key_calls.create_api_key(drawn, "skiplane up", "admin", None, expires))
        self.key = drawn.key
        stack.callback(self._revoke, drawn.key_id)
        arguments = ["web", "--host", HOST, "--port", str(self._port)]
        self.child = Child("web", arguments, config.data_dir / "web.log", {})
        stack.callback(self.child.stop, STOP_SECONDS)

    def _revoke(self, key_id: str) -> None:
        with suppress(SkiplaneError):
            self._db.run(key_calls.revoke_api_key(key_id))

    def answers(self) -> bool:
        """Whether it serves requests."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=1)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _free_port() -> int:
    for port in (DEFAULT_PORT, 0):
        with suppress(OSError), open_socket(HOST, port) as probe:
            # Bound but not listening, so others would not see that it is taken.
            probe.listen()
            number: int = probe.getsockname()[1]
            return number
    raise OSError("no port is free")
