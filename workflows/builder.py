"""Building workflows: tasks that wait for each other."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import msgspec

from ..schema.call import Call
from ..schema.encode import check_text, encode_json, shown
from ..schema.errors import InvalidInput
from ..schema.options import CASTS, SubmitOptions
from ..schema.workflow_calls import submit_documents
from ..schema.workflow_records import SubmittedWorkflow
from .handle import WorkflowHandle
from .steps import Chain, Group, Shape, Step, as_shape, step

if TYPE_CHECKING:
    from ..app import Skiplane

Trigger = Literal["all_success", "all_done", "any_failed"]


class Node:
    """A task in a workflow that is being built. Pass it in ``after``."""

    __slots__ = ("after", "flow", "name", "step", "trigger")

    def __init__(
        self, flow: "Workflow", name: str, step: Step, after: list[str], trigger: str
    ) -> None:
        self.flow = flow
        self.name = name
        self.step = step
        self.after = after
        self.trigger = trigger

    def __repr__(self) -> str:
        return f"<Node {self.name} of {self.flow.name}>"

    def document(self, index: int) -> bytes:
        """Give it as the engine takes it."""
        options = {
            key: msgspec.Raw(value.encode()) if CASTS[key] == "jsonb" else value
            for key, value in self.step.options.items()
        }
        fields: dict[str, Any] = {
            "name": self.name,
            "task_type": self.step.task_type,
            "dependencies": self.after,
            **options,
            "payload": msgspec.Raw(self.step.payload),
        }
        if self.trigger != "all_success":
            fields["trigger"] = self.trigger
        return encode_json(fields, f"tasks[{index}]")


class Workflow:
    """A workflow that is being built; ``submit`` sends it, as often as it is called.

    Attributes:
        name: Its name.
        nodes: Its tasks, by name.
    """

    def __init__(self, name: str, app: "Skiplane | None" = None) -> None:
        self.name = check_text("workflow_name", name)
        self.nodes: dict[str, Node] = {}
        self._app = app
        self._counts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Workflow {self.name} with {len(self.nodes)} tasks>"

    def task(
        self,
        task: Any,
        payload: Any = None,
        *,
        name: str | None = None,
        after: Any = (),
        trigger: Trigger = "all_success",
        **options: Unpack[SubmitOptions],
    ) -> Node:
        """Add a task.

        Args:
            task: A task, ``task.step(...)``, or the name of a task type.
            payload: The task's keyword arguments as a dict; any JSON value for a
                name. Not with a step, which has its arguments.
            name: Its name in the workflow; by default the task type, with a
                number from the second one on.
            after: What it waits for: nodes or names, one or several.
            trigger: When it starts: ``all_success`` of its dependencies;
                ``all_done``, however they end; ``any_failed``, as soon as one fails.
            options: As in a submission; a ``delay`` counts from the moment at
                which the dependencies are done.

        Raises:
            InvalidInput: The name is taken, or an argument is refused.
        """
        made = _step(task, payload, options)
        chosen = self._free_name(made.task_type) if name is None else check_text("name", name)
        if chosen in self.nodes:
            raise InvalidInput(
                f"The workflow has a task {chosen!r} already.", "name", chosen, "Give another name."
            )
        node = Node(self, chosen, made, list(self._names(after)), trigger)
        self.nodes[chosen] = node
        self._app = self._app or made.app
        return node

    def add(self, shape: Any, *, after: Any = ()) -> list[Node]:
        """Add a chain or a group.

        Args:
            shape: What ``chain`` or ``group`` gave, or a step.
            after: What its first tasks wait for.

        Returns:
            Its last tasks, to be waited for.
        """
        return self._add(as_shape(shape, "shape"), list(self._names(after)))

    def _add(self, shape: Shape, after: list[str]) -> list[Node]:
        match shape:
            case Step():
                return [self.task(shape, after=after)]
            case Group():
                return [node for part in shape for node in self._add(part, after)]
            case Chain():
                last: list[Node] = []
                for part in shape:
                    # An empty group stands for nothing: what follows waits for what came before.
                    last = self._add(part, after) or last
                    after = [node.name for node in last] or after
                return last

    async def submit(
        self,
        *,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> WorkflowHandle:
        """Submit the workflow, in one transaction and one round trip.

        Args:
            idempotency_key: A second submission with it gives the first workflow.
            tenant: Tenant of the workflow and its tasks.
            metadata: Goes to every task.
            connection: Submit inside the transaction that is open there.

        Raises:
            InvalidInput: A cycle, an unknown name, or a refused option.
            IdempotencyConflict: The key was used with another body.
        """
        app = self._known_app()
        answer = await app.run(self._call(idempotency_key, tenant, metadata), connection)
        return WorkflowHandle(app, answer.workflow_id, answer, pending=connection is not None)

    def submit_sync(
        self,
        *,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> WorkflowHandle:
        """Do what ``submit`` does, without an event loop."""
        app = self._known_app()
        answer = app.run_sync(self._call(idempotency_key, tenant, metadata), connection)
        return WorkflowHandle(app, answer.workflow_id, answer, pending=connection is not None)

    def on(self, app: "Skiplane") -> Self:
        """Name the app that submits it, where that is not the app of its tasks."""
        self._app = app
        return self

    def _call(
        self, key: str | None, tenant: str | None, metadata: Mapping[str, Any] | None
    ) -> Call[SubmittedWorkflow]:
        options: dict[str, Any] = {"idempotency_key": key, "metadata": metadata, "tenant": tenant}
        return submit_documents(self.name, self.documents(), options)

    def documents(self) -> list[bytes]:
        """Give its tasks as they are sent.

        Raises:
            InvalidInput: One of them cannot be sent.
        """
        return [node.document(index) for index, node in enumerate(self.nodes.values())]

    def _known_app(self) -> "Skiplane":
        if self._app is None:
            raise InvalidInput(
                "The workflow knows no app: all its tasks are only named.",
                "app",
                None,
                "Write app.workflow(name).",
            )
        return self._app

    def _names(self, after: Any) -> Iterator[str]:
        if isinstance(after, str | Node):
            after = (after,)
        if not isinstance(after, Iterable):
            raise InvalidInput("after is no list.", "after", shown(after), "Give nodes or names.")
        for one in after:
            if isinstance(one, Node):
                if one.flow is not self:
                    raise InvalidInput(
                        f"Task {one.name!r} is in another workflow.", "after", one.name
                    )
                yield one.name
            else:
                yield check_text("after", one)

    def _free_name(self, task_type: str) -> str:
        number = self._counts.get(task_type, 0)
        while True:
            number += 1
            name = task_type if number == 1 else f"{task_type}-{number}"
            if name not in self.nodes:
                self._counts[task_type] = number
                return name


def workflow(name: str, app: "Skiplane | None" = None) -> Workflow:
    """Begin a workflow.

    Args:
        name: Its name; several may have the same.
        app: The app that submits it; by default that of its first task.
    """
    return Workflow(name, app)


def _step(task: Any, payload: Any, options: SubmitOptions) -> Step:
    if isinstance(task, str):
        return step(task, payload, **options)
    if isinstance(task, Step):
        if payload is not None or options:
            raise InvalidInput(
                "A step has its arguments and options already.",
                "task",
                task.task_type,
                "Write task.options(...).step(...).",
            )
        return task
    if not hasattr(task, "step"):
        raise InvalidInput(
            "That is no task.", "task", shown(task), "Give a task, task.step(...), or a task type."
        )
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidInput(
            "payload is no dict.", "payload", shown(payload), "Give keyword arguments by name."
        )
    made: Step = (task.options(**options) if options else task).step(**(payload or {}))
    return made


__all__ = ["Group", "Node", "Workflow", "workflow"]
