"""The engine's clock of one session, which tests may set."""

from datetime import datetime

from .call import Call
from .options import instant


def set_clock(now: datetime | None) -> Call[None]:
    """Stop the clock of the session at an instant; None lets it run again.

    On a connection in a transaction a rollback takes it back.
    """
    text = "" if now is None else instant("now", now).isoformat()
    return Call(
        "select set_config('skiplane.now', cast(%s as text), false)", (text,), lambda rows: None
    )
