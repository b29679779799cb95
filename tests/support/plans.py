"""The plans of all statements inside functions, as auto_explain tells them to the client."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
    "jit": "off",
}
Node = dict[str, Any]


@dataclass
class Plans:
    """What ran, statement by statement."""

    found: list[Node] = field(default_factory=list)

    def add(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Take a plan out of a message."""
        text = diagnostic.message_primary or ""
        if " plan:\n" in text:
            self.found.append(json.loads(text.split(" plan:\n", 1)[1]))

    def scans(self) -> Iterator[tuple[Node, str]]:
        """Give each node that reads a table, with the text of its statement."""
        for plan in self.found:
            waiting = [plan["Plan"]]
            while waiting:
                node = waiting.pop()
                waiting += node.get("Plans", [])
                if "Relation Name" in node and node["Node Type"] != "ModifyTable":
                    yield node, plan["Query Text"]

    def buffers(self) -> int:
        """Count the pages that all statements touched; nested ones count in their callers too."""
        return max((plan["Plan"].get("Shared Hit Blocks", 0) for plan in self.found), default=0)


def rows_read(node: Node) -> float:
    """Count the live rows that a node looked at."""
    dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + dropped) * node["Actual Loops"])


def told(node: Node, query: str) -> str:
    """Tell what a node did, for the message of a failure."""
    names = ("Node Type", "Index Name", "Relation Name", "Index Cond", "Filter")
    return f"{rows_read(node):.0f} rows by {[node.get(name) for name in names]} in {query}"


@contextmanager
def explained(conn: psycopg.Connection[Any]) -> Iterator[Plans]:
    """Collect the plans of what runs on a superuser's connection."""
    plans = Plans()
    conn.execute("load 'auto_explain'")
    for name, value in SETTINGS.items():
        conn.execute("select set_config(%s, %s, false)", [name, value])
    conn.add_notice_handler(plans.add)
    try:
        yield plans
    finally:
        conn.remove_notice_handler(plans.add)
        conn.execute("reset client_min_messages")
        conn.execute("set auto_explain.log_min_duration = -1")
