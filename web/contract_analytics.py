"""The contract of analytics."""

from . import models_analytics as m
from .contract_parts import QUEUE, STRING, TASK_ID, TENANT, TYPE, Answer, Operation, Parameter

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/api/v1/analytics/failures"): Operation(
        "failure_analytics",
        "reader",
        "Which types fail, how often, with what errors, since when. Attempts that failed count"
        " as errors, also when a retry succeeded. Counted some seconds late; by the minute for"
        " up to a day back, by the hour beyond.",
        {
            200: Answer(
                "The most frequent first.",
                m.Failures,
                {
                    "since": "2026-04-03T09:00:00Z",
                    "until": "2026-04-04T09:00:12Z",
                    "step_seconds": 1440.0,
                    "types": [
                        {
                            "task_type": "send_email",
                            "succeeded": 10412,
                            "failed": 3,
                            "dead": 12,
                            "cancelled": 0,
                            "retried": 261,
                            "mean_run_ms": 84.2,
                        }
                    ],
                    "errors": [
                        {
                            "fingerprint": "5f4dcc3b5aa765d61d8327deb882cf99",
                            "error_type": "SMTPServerDisconnected",
                            "message": "Connection unexpectedly closed",
                            "errors": 273,
                            "task_types": ["send_email"],
                            "first_seen": "2026-03-30T02:11:08Z",
                            "last_seen": "2026-04-04T08:58:40Z",
                            "task_id": TASK_ID,
                        }
                    ],
                    "over_time": [{"at": "2026-04-04T08:36:00Z", "errors": 14}],
                },
            )
        },
        parameters=(
            Parameter(
                "seconds",
                {"type": "integer", "minimum": 60, "maximum": 31_536_000, "default": 86_400},
                "How far back.",
            ),
            TYPE,
            QUEUE,
            TENANT,
            Parameter("fingerprint", STRING, "Only this kind of error."),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
                "Most types and kinds of errors.",
            ),
        ),
    ),
}
