"""What the engine promises, as a few dictionaries."""

import datetime
import uuid
from dataclasses import dataclass, field

Instant = datetime.datetime
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "DEAD")
LEASE = 10.0


def after(instant: Instant, seconds: float) -> Instant:
    return instant + datetime.timedelta(seconds=seconds)


@dataclass
class Task:
    """One task as its callers see it."""

    queue: str
    task_type: str
    max_retries: int
    retry_delay: float
    scheduled_at: Instant
    expires_at: Instant | None
    status: str = "PENDING"
    attempt: int = 0
    fence: int = 0
    version: int = 1
    due: Instant | None = None
    letter: bool = False
    ends: list[tuple[str, bool]] = field(default_factory=list)


@dataclass
class Lease:
    """A batch in work."""

    worker: uuid.UUID
    claimed_at: Instant
    until: Instant
    ids: list[uuid.UUID]


@dataclass
class Model:
    """All tasks and leases."""

    tasks: dict[uuid.UUID, Task] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)

    def claimable(self, queues: list[str], types: list[str] | None, now: Instant) -> set[uuid.UUID]:
        """Give what a claim may hand out."""
        return {
            task_id
            for task_id, task in self.tasks.items()
            if task.status == "PENDING"
            and task.queue in queues
            and (types is None or task.task_type in types)
            and (task.expires_at is None or task.expires_at > now)
        }

    def start(self, lease_id: int, worker: uuid.UUID, ids: list[uuid.UUID], now: Instant) -> None:
        """Move what was claimed."""
        self.leases[lease_id] = Lease(worker, now, after(now, LEASE), list(ids))
        for task_id in ids:
            task = self.tasks[task_id]
            task.status = "RUNNING"
            task.attempt += 1
            task.fence += 1

    def leave(self, lease_id: int, task_id: uuid.UUID) -> None:
        """Take a task out of its lease."""
        lease = self.leases[lease_id]
        lease.ids.remove(task_id)
        if not lease.ids:
            del self.leases[lease_id]

    def lease_of(self, task_id: uuid.UUID) -> int:
        """Give the lease that holds a task."""
        return next(number for number, lease in self.leases.items() if task_id in lease.ids)

    def end_attempt(
        self, task_id: uuid.UUID, kind: str, now: Instant, excused: bool = False
    ) -> None:
        """Follow a task after an attempt; it has left its lease."""
        task = self.tasks[task_id]
        wait = 0.0
        if kind == "success":
            task.status = "SUCCEEDED"
            return
        if kind in ("release", "postpone"):
            task.attempt -= 1
            wait = 5.0 if kind == "postpone" else 0.0
        elif kind == "permanent":
            task.status = "FAILED"
            return
        else:
            again = bool(task.ends) and task.ends[-1][0] == "lost"
            task.ends.append(("lost" if kind == "swept" else kind, excused))
            free = min(sum(e for _, e in task.ends), task.max_retries)
            if task.attempt - free > task.max_retries:
                task.status = "DEAD"
                task.letter = True
                return
            if kind != "lost" and (kind != "swept" or again):
                wait = task.retry_delay
        self.wait(task, wait, now, "RETRYING")

    def wait(self, task: Task, seconds: float, now: Instant, status: str) -> None:
        """Let a task wait for a time, or make it ready."""
        task.status = status if seconds > 0 else "PENDING"
        task.due = after(now, seconds) if seconds > 0 else None

    def end_lease(self, lease_id: int, kind: str, now: Instant, excused: bool = False) -> int:
        """End a whole lease in one way; give the number of its tasks."""
        ids = list(self.leases.pop(lease_id).ids)
        for task_id in ids:
            self.end_attempt(task_id, kind, now, excused)
        return len(ids)

    def sweep(self, now: Instant) -> int:
        """End all leases that ran out; what was lost beside others is excused."""
        late = {number: lease for number, lease in self.leases.items() if lease.until < now}
        workers = [lease.worker for lease in late.values()]
        return sum(
            self.end_lease(
                number, "swept", now, len(lease.ids) > 1 or workers.count(lease.worker) > 1
            )
            for number, lease in late.items()
        )

    def edit(self, task: Task, changes: dict[str, object], now: Instant) -> str | None:
        """Follow an edit of a task that waits; give the refusal if there is one."""
        delay = changes.get("delay_seconds")
        retimed = isinstance(delay, (int, float))
        start = after(now, float(delay)) if isinstance(delay, (int, float)) else task.scheduled_at
        if task.expires_at is not None and task.expires_at <= max(start, now):
            return "SK001"
        task.queue = str(changes.get("queue", task.queue))
        retries = changes.get("max_retries", task.max_retries)
        assert isinstance(retries, int)
        task.max_retries = retries
        task.version += 1
        if retimed:
            task.scheduled_at = start
        never_ran = task.status == "SCHEDULED" or (task.status == "PENDING" and task.fence == 0)
        due = start if retimed or task.status == "SCHEDULED" else task.due
        if task.status == "PENDING" and not retimed:
            return None
        assert due is not None
        waits = due > now
        task.status = ("SCHEDULED" if never_ran else "RETRYING") if waits else "PENDING"
        task.due = due if waits else None
        return None
