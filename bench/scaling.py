"""Compute what a load needs in nodes, disk, WAL and connections from what was measured.

    python bench/scaling.py            prints the tables
    python bench/scaling.py --write    puts them into docs/scaling.md

The inputs stand in docs/scaling.md, in tables whose first column is a name in backticks and whose
second is a number: what was measured, the load, and what is assumed. Put a later measurement there
and run it again. Nothing is in this file but the formulas, which the tables show.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

DOC = Path(__file__).resolve().parent.parent / "docs" / "scaling.md"
INPUT = re.compile(r"^\| `(\w+)` \| ([^|]*) \|", re.M)
DAY = 86_400
KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12


class BadInput(Exception):
    """An input that cannot be used; the message names it."""


class Inputs:
    """The numbers of the document by name."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, float] = {}
        for name, shown in INPUT.findall(text):
            try:
                value = float(shown.replace(",", ""))
            except ValueError:
                value = math.nan
            if not 0 <= value < math.inf:
                raise BadInput(f"{name} = {shown.strip()!r} is no number. Give one from 0 up.")
            if name in self._values:
                raise BadInput(f"{name} stands there twice. Leave one of them out.")
            self._values[name] = value

    def __getattr__(self, name: str) -> float:
        try:
            return self._values[name]
        except KeyError:
            raise BadInput(f"{name} is missing. Give it a row in a table of inputs.") from None


class Costs:
    """What one task of the mix costs."""

    def __init__(self, i: Inputs) -> None:
        self.cpu = (i.cpu_us + i.delayed_share * i.delayed_cpu_us) / 1e6
        self.wal = i.wal_bytes + i.delayed_share * i.delayed_wal_bytes
        self.history = (
            i.task_bytes
            + i.outcome_bytes
            + i.failed_share * i.attempt_bytes
            + i.keyed_share * i.key_bytes
        )


Row = tuple[str, str, str]


def number(value: float) -> str:
    """Write a number with three digits that matter, or whole with commas."""
    if value >= 100:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Write bytes in the unit that fits."""
    for unit, name in ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB")):
        if value >= unit:
            return f"{number(value / unit)} {name}"
    return f"{number(value)} B"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Write a table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def task_table(i: Inputs) -> str:
    """What one task of the mix costs."""
    c = Costs(i)
    history = (
        "`task_bytes` + `outcome_bytes` + `failed_share` x `attempt_bytes`"
        " + `keyed_share` x `key_bytes`"
    )
    rows = [
        (
            "server CPU",
            "`cpu_us` + `delayed_share` x `delayed_cpu_us`",
            f"{number(c.cpu * 1e6)} us",
        ),
        ("WAL", "`wal_bytes` + `delayed_share` x `delayed_wal_bytes`", f"{number(c.wal)} B"),
        ("history, kept for `days`", history, f"{number(c.history)} B"),
    ]
    return table(("a task of the mix", "formula", ""), rows)


def node_limits(i: Inputs) -> dict[str, tuple[str, float]]:
    """Give what each resource of one node without Citus bears, with its formula."""
    c = Costs(i)
    return {
        "disk": (
            "`node_disk_tb` x `fill` / (`days` x 86,400 x history)",
            i.node_disk_tb * TB * i.fill / (i.days * DAY * c.history),
        ),
        "WAL": ("`node_wal_mb` / WAL", i.node_wal_mb * MB / c.wal),
        "server CPU": ("`node_cores` x `busy` / CPU", i.node_cores * i.busy / c.cpu),
    }


def node_table(i: Inputs) -> str:
    """What one node bears, the first limit first."""
    limits = sorted(node_limits(i).items(), key=lambda item: item[1][1])
    rows = [(name, formula, f"{number(rate)} tasks/s") for name, (formula, rate) in limits]
    return table(("one node is full at", "formula", ""), rows)


def nodes(i: Inputs, rate: float, days: float) -> dict[str, int]:
    """Give the nodes that a rate needs of each resource; history fills at the mean rate."""
    c = Costs(i)
    return {
        "server CPU": math.ceil(rate * c.cpu / i.citus_share / (i.node_cores * i.busy)),
        "WAL": math.ceil(rate * c.wal / (i.node_wal_mb * MB)),
        "disk": math.ceil(Stored(i, days).all / (i.node_disk_tb * TB * i.fill)),
    }


def needs(i: Inputs, rate: float) -> list[Row]:
    """What the cluster needs at a rate: name, formula, value."""
    c, needed = Costs(i), nodes(i, rate, i.days)
    cores = rate * c.cpu / i.citus_share
    running = rate * i.task_seconds
    processes = math.ceil(running / i.concurrency)
    connections = processes * i.worker_connections
    each = math.ceil(connections / max(nodes(i, i.peak_per_s, i.days).values()))
    singly, batches = math.ceil(rate / i.post_per_s), math.ceil(rate / i.batch_per_s)
    disk = "all that is stored / (`node_disk_tb` x `fill`)"
    return [
        ("server CPU, busy", "rate x CPU / `citus_share`", f"{number(cores)} cores"),
        ("written to data files, at least", "rate x history", f"{size(rate * c.history)}/s"),
        ("WAL", "rate x WAL", f"{size(rate * c.wal)}/s"),
        ("nodes for CPU", "cores / (`node_cores` x `busy`)", str(needed["server CPU"])),
        ("nodes for WAL", "rate x WAL / `node_wal_mb`", str(needed["WAL"])),
        ("nodes for disk", disk, str(needed["disk"])),
        ("tasks that run at once", "rate x `task_seconds`", number(running)),
        ("worker processes", "tasks that run at once / `concurrency`", number(processes)),
        ("connections of workers", "processes x `worker_connections`", number(connections)),
        ("of these on each node", "connections / nodes", number(each)),
        ("web cores, one task a request", "rate / `post_per_s`", number(singly)),
        ("web cores, batches", "rate / `batch_per_s`", number(batches)),
    ]


def cluster_table(i: Inputs) -> str:
    """What the cluster needs at the mean and at the peak."""
    rates = (i.rate_per_s, i.peak_per_s)
    rows = [
        (*mean, peak[2]) for mean, peak in zip(*(needs(i, rate) for rate in rates), strict=True)
    ]
    return table(("at a rate of", "formula", *(f"{number(rate)}/s" for rate in rates)), rows)


class Stored:
    """Bytes that are kept, with history of so many days."""

    def __init__(self, i: Inputs, days: float) -> None:
        self.fires = i.schedules * i.fires_per_day / DAY
        self.flow_tasks = i.workflows_per_day * i.workflow_tasks
        self.backlog = (i.peak_per_s - i.rate_per_s) * i.peak_minutes * 60
        self.history = i.tasks_per_day * days * Costs(i).history
        self.waiting = i.waiting * i.timer_bytes
        self.ready = self.backlog * i.ready_bytes
        self.schedules = i.schedules * i.schedule_bytes
        self.fire_history = self.fires * DAY * days * i.fire_bytes
        self.flows = self.flow_tasks * days * i.workflow_bytes
        self.all = self.history + self.waiting + self.ready
        self.all += self.schedules + self.fire_history + self.flows


def storage_table(i: Inputs) -> str:
    """What is stored: name, formula, value."""
    s = Stored(i, i.days)
    schedulers = math.ceil(s.fires / i.cron_fires_per_s)
    tasks = f"{i.tasks_per_day * i.days / 1e9:,.0f} billion"
    flows = "`workflows_per_day` x `workflow_tasks` / 86,400"
    left = "(`peak_per_s` - `rate_per_s`) x `peak_minutes` x 60"
    wal = size(i.tasks_per_day * Costs(i).wal)
    rows = [
        ("history of a day", "`tasks_per_day` x history", size(s.history / i.days)),
        ("history of all days", "x `days`", size(s.history)),
        ("tasks in it", "`tasks_per_day` x `days`", tasks),
        ("what waits", "`waiting` x `timer_bytes`", size(s.waiting)),
        ("tasks that a peak leaves", left, f"{s.backlog / 1e6:,.0f} million"),
        ("their ready rows", "x `ready_bytes`", size(s.ready)),
        ("schedules", "`schedules` x `schedule_bytes`", size(s.schedules)),
        ("their fires", "`schedules` x `fires_per_day` / 86,400", f"{number(s.fires)}/s"),
        ("schedulers for the fires", "fires / `cron_fires_per_s`", str(schedulers)),
        ("history of fires", "fires x 86,400 x `days` x `fire_bytes`", size(s.fire_history)),
        ("tasks of workflows", flows, f"{number(s.flow_tasks / DAY)}/s"),
        ("their own rows, at most", "x 86,400 x `days` x `workflow_bytes`", size(s.flows)),
        ("all that is stored", "sum of the sizes, a day's aside", size(s.all)),
        ("WAL of a day, for the archive", "`tasks_per_day` x WAL", wal),
    ]
    return table(("what is stored", "formula", ""), rows)


def whole_table(i: Inputs) -> str:
    """The nodes of the whole at the peak, with fewer days kept, too."""
    rows = []
    for days in sorted({i.days, 7.0, 1.0}, reverse=True):
        needed = nodes(i, i.peak_per_s, days)
        first = max(needed, key=lambda name: needed[name])
        count = needed[first]
        whole = math.ceil(count * (1 + i.standbys))
        rows.append((f"{days:g}", *map(str, needed.values()), first, str(count), str(whole)))
    head = ("days kept", "CPU", "WAL", "disk", "first limit", "nodes", "with standbys")
    return table(head, rows)


PARTS: dict[str, Callable[[Inputs], str]] = {
    "task": task_table,
    "node": node_table,
    "cluster": cluster_table,
    "storage": storage_table,
    "whole": whole_table,
}


def place(name: str) -> re.Pattern[str]:
    """Give the pattern of a part's place in the document."""
    return re.compile(rf"(<!-- computed: {name} -->\n)(?:.*?\n)??(<!-- end -->)", re.S)


def compute(text: str) -> str:
    """Give the document with its computed tables made anew.

    Raises:
        BadInput: An input, or the place of a table, is missing or wrong.
    """
    inputs = Inputs(text)
    for name, part in PARTS.items():
        made = part(inputs)
        text, count = place(name).subn(lambda m, made=made: f"{m[1]}{made}\n{m[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise BadInput(f"The place of the table {name} is missing. Give it its two comments.")
    return text


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("document", nargs="?", type=Path, default=DOC)
    parser.add_argument("--write", action="store_true", help="put them into the document")
    asked = parser.parse_args()
    try:
        text = compute(asked.document.read_text(encoding="utf-8"))
    except (BadInput, OSError) as error:
        sys.exit(f"{asked.document}: {error}")
    if asked.write:
        asked.document.write_text(text, encoding="utf-8")
        return
    tables = [match[0].split("\n", 1)[1].rsplit("\n", 1)[0] for name in PARTS
              for match in place(name).finditer(text)]  # fmt: skip
    print("\n\n".join(tables))


if __name__ == "__main__":
    main()
