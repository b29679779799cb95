"""``skiplane.notify``: send a message to people, through Apprise.

Tasks name the tags of the operator's Apprise file, never addresses: these hold
passwords, and could lead anywhere.
"""

import importlib.util
from pathlib import Path
from typing import Any, Literal

from ...schema.errors import PermanentError

Kind = Literal["info", "success", "warning", "failure"]


class NotifyUnusable(Exception):
    """Messages cannot be sent as the operator has set it up; the message says why."""


class Notify:
    """Sends messages to the places of one Apprise file."""

    def __init__(self, path: str) -> None:
        """Read the file.

        Raises:
            NotifyUnusable: It is not there or holds nothing, or Apprise is missing.
        """
        if importlib.util.find_spec("apprise") is None:
            raise NotifyUnusable(
                "--notify-config is given, but Apprise is not installed. Install skiplane[notify]."
            )
        import apprise

        config = apprise.AppriseConfig()
        self._apprise: Any = apprise.Apprise()
        self._apprise.add(config)
        if not Path(path).is_file() or not config.add(path) or not len(self._apprise):
            raise NotifyUnusable(
                f"notify_config = {path!r} holds no places to send to. Give an Apprise file with"
                " tags, see https://appriseit.com/config/."
            )

    async def run(self, to: list[str], body: str, title: str = "", kind: Kind = "info") -> None:
        """Send a message.

        Args:
            to: Tags; every place that has one of them gets it.
            body: The text.
            title: Its title, where a place shows one.
            kind: What it is about: decides colours and symbols.

        Raises:
            PermanentError: No place has one of the tags.
            NotSent: A place did not take it; all get it again at the next try.
        """
        places = list(self._apprise.find(tag=to, match_always=False)) if to else []
        if not places:
            raise PermanentError(
                f"to = {to!r} names no tag of the operator's file. Give one or more that it has."
            )
        sent = await self._apprise.async_notify(
            body=body, title=title, notify_type=kind, tag=to, match_always=False
        )
        if not sent:
            raise NotSent(f"Not all of the {len(places)} places took the message.")


class NotSent(Exception):
    """A place did not take a message."""
