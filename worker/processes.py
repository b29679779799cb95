"""What only the operating system can do for processes. Linux has all of it; elsewhere less."""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends, or end now when it already has.

    Args:
        parent: Process id of the parent. The signal is sent when the parent's
            THREAD that started us ends, so a main thread must have.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> set[int]:
    """Give the ids of this process's children; empty where the system does not tell."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return set()
    return {int(pid) for pid in text.split()}


def _children_of(pid: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def _is_child(pid: int) -> bool:
    """Tell whether a process is a child of this one that nobody has taken leave of.

    Until then its number cannot become that of another process.
    """
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_tree(child: int) -> None:
    """Kill a child, what descends from it, and the groups that any of these lead.

    Not found is who has let go of all of them: a daemon in a session of its own.
    Where the system does not tell who descends from whom, only groups are found.
    """
    if not _is_child(child):
        return
    found: list[int] = []
    todo = [child]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGSTOP)  # it starts no more while we look
        found.append(pid)
        todo += _children_of(pid)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                kill_group(pid)
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Tell whether a process can run: it exists, is not stopped, and is no zombie.

    Where the system does not tell, a process that exists counts as running.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return sys.platform != "linux"
    # The name before the state may itself hold spaces and brackets.
    return stat.rpartition(b")")[2].split()[0] not in (b"T", b"t", b"Z", b"X")


def kill_group(leader: int) -> None:
    """Kill a process group; nothing happens when it is gone."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def how_it_ended(status: int) -> str:
    """Say how a process ended, from the status that waiting gave."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
