"""Starts the server so that it ends when the process that wanted it ends.

Run by path, as a program of its own and before the server's program takes its
place: what must happen between fork and exec cannot be done safely in a process
that has threads. Arguments: mode, user id, group id (or -), id of the parent
process, number of the descriptor that the server keeps open, then the command.

Mode ``signal`` (Linux): the kernel sends SIGINT, a fast shutdown, when the
THREAD that started this process ends. Mode ``pipe`` (elsewhere): this process
stays, and stops the server when its standard input closes. A child that the
parent forked without exec holds that pipe open too, so this mode waits for
such children as well.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _become(user: str, group: str) -> None:
    if user != "-":
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))


def _signal(user: str, group: str, parent: int, command: list[str]) -> None:
    import ctypes

    # A change of user clears the wish, so it comes second.
    _become(user, group)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # It may have ended before the wish was made.
    if os.getppid() != parent:
        sys.exit("The process that started the server is gone.")
    os.execv(command[0], command)


def _pipe(user: str, group: str, kept: int, command: list[str]) -> None:
    import subprocess
    import threading

    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=(kept,), preexec_fn=lambda: _become(user, group)
    )

    def stop_with_parent() -> None:
        while os.read(0, 1):
            pass
        server.send_signal(signal.SIGINT)

    threading.Thread(target=stop_with_parent, daemon=True).start()
    sys.exit(server.wait())


def main() -> None:
    """Start the server; in mode ``signal`` this process becomes it."""
    mode, user, group, parent, kept, *command = sys.argv[1:]
    if mode == "signal":
        _signal(user, group, int(parent), command)
    else:
        _pipe(user, group, int(kept), command)


if __name__ == "__main__":
    main()
