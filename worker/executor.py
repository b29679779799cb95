"""What the runner asks of places where tasks run, other than its own event loop."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .leases import Item


class Executor(Protocol):
    """Somewhere else than the event loop where tasks run.

    Attributes:
        apart: Whether they run in processes other than the worker's.
    """

    apart: bool

    def submit(self, item: "Item") -> None:
        """Run it when a place is free; its end is told to the runner."""

    def ask(self, item: "Item") -> None:
        """Let the task see that it should stop."""

    def force(self, item: "Item") -> None:
        """Stop it for real, as far as that can be done."""

    def withdraw(self) -> "list[Item]":
        """Take back what has not begun."""
