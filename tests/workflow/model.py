"""What workflows promise, written down a second time: each state follows from those before it."""

from dataclasses import dataclass, field

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "DEAD", "SKIPPED")
BAD = ("FAILED", "CANCELLED", "DEAD")


@dataclass
class Node:
    """A task. ``follows``: it was failed or skipped because of others."""

    parents: list[int]
    trigger: str
    max_retries: int
    status: str = "BLOCKED"
    attempt: int = 0
    follows: bool = False

    @property
    def shown(self) -> str:
        """Its state as the engine names it."""
        return "CANCELLED" if self.status == "SKIPPED" else self.status


@dataclass
class Model:
    """One workflow."""

    nodes: list[Node]
    stopped: bool = False
    order: list[int] = field(default_factory=list)

    def settle(self) -> None:
        """Let follow what follows. Parents come before children in the list."""
        for node in self.nodes:
            if node.status == "BLOCKED":
                states = [self.nodes[parent].status for parent in node.parents]
                self._step(node, states)

    def _step(self, node: Node, states: list[str]) -> None:
        waits = any(state not in ENDED for state in states)
        failed = any(state in BAD for state in states)
        if node.trigger == "any_failed":
            runs, ends = failed, None if waits else "SKIPPED"
        elif node.trigger == "all_done":
            runs, ends = not waits, None
        else:
            runs = not waits and all(state == "SUCCEEDED" for state in states)
            ends = "FAILED" if failed else None if waits else "SKIPPED"
        if runs:
            node.status = "PENDING"
        elif ends is not None:
            node.status, node.follows, node.attempt = ends, True, 0

    @property
    def status(self) -> str:
        """The workflow's state."""
        states = [node.status for node in self.nodes]
        if any(state not in ENDED for state in states):
            return "RUNNING"
        if self.stopped:
            return "CANCELLED"
        if "FAILED" in states or "DEAD" in states:
            return "FAILED"
        return "CANCELLED" if "CANCELLED" in states else "SUCCEEDED"

    def cancel(self) -> None:
        """Cancel all that has not ended."""
        self.stopped = True
        for node in self.nodes:
            if node.status not in ENDED:
                node.status, node.follows = "CANCELLED", False

    def retry(self, places: list[int]) -> None:
        """Take back how tasks ended."""
        self.stopped = False
        for place in places:
            node = self.nodes[place]
            node.status, node.attempt, node.follows = "BLOCKED", 0, False
        self.settle()

    def unhappy(self) -> list[int]:
        """Give all tasks that ended other than by success."""
        return [n for n, node in enumerate(self.nodes) if node.status in (*BAD, "SKIPPED")]

    def because_of(self, place: int) -> list[int]:
        """Give a task and all that did not run because of it."""
        found = {place}
        for n, node in enumerate(self.nodes):
            if node.follows and found & set(node.parents):
                found.add(n)
        return sorted(found)
