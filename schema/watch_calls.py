"""What people look at who watch a system: the calls behind `skiplane top`, `doctor` and `dlq`."""

from .call import Call, text


def count_dead_letters(
    *, task_type: str | None = None, queue: str | None = None, tenant: str | None = None
) -> Call[int]:
    """Count the dead letters, all or those of a filter."""
    given = {"task_type": task_type, "queue": queue, "tenant_id": tenant}
    wanted = {name: text(name, value)[1] for name, value in given.items() if value is not None}
    conditions = "".join(f" and {name} = cast(%s as text)" for name in wanted)
    return Call(
        f"select count(*) from skiplane.dead_letter_queue where true{conditions}",
        tuple(wanted.values()),
        lambda rows: int(rows[0][0]),
        repeatable=True,
    )
