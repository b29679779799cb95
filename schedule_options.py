"""What schedules may set."""

from datetime import datetime
from typing import Literal

from .schema.options import Seconds, TaskOptions


class ScheduleOptions(TaskOptions, total=False):
    """What a schedule may set, beside the options of its tasks. None: the default."""

    timezone: str
    overlap_policy: Literal["skip", "queue", "cancel_running"]
    missed_policy: Literal["skip", "once", "all"]
    missed_limit: int
    jitter: Seconds
    start_at: datetime | None
    end_at: datetime | None
    enabled: bool
    tenant: str
