"""Who runs next, from an app: queues, task types, tenants, and why a task waits."""

from typing import Any, Unpack
from uuid import UUID

from .schema import flow_calls
from .schema.flow_calls import QueueState, TaskTypeState, TenantState, Waiting
from .schema.limits import QueueSettings, TenantSettings, TypeLimits
from .submitting import Submitting


class Steering(Submitting):
    """The verbs about queues, task types and tenants, each async and sync."""

    async def explain(self, task_id: UUID | str, *, connection: Any = None) -> Waiting:
        """Tell why a task has not started, and what would start it.

        Raises:
            NotFound: There is no such task.
        """
        return await self.run(flow_calls.explain_waiting(task_id), connection)

    def explain_sync(self, task_id: UUID | str, *, connection: Any = None) -> Waiting:
        """Do what ``explain`` does, without an event loop."""
        return self.run_sync(flow_calls.explain_waiting(task_id), connection)

    async def queues(self, *, connection: Any = None) -> list[QueueState]:
        """Read all queues that have settings or tasks, with their depth."""
        return await self.run(flow_calls.list_queues(), connection)

    def queues_sync(self, *, connection: Any = None) -> list[QueueState]:
        """Do what ``queues`` does, without an event loop."""
        return self.run_sync(flow_calls.list_queues(), connection)

    async def set_queue(
        self, queue: str, *, connection: Any = None, **settings: Unpack[QueueSettings]
    ) -> QueueState:
        """Set what is given of a queue.

        Args:
            queue: Its name.
            connection: Set it inside the transaction that is open there.
            settings: See QueueSettings.
        """
        return await self.run(flow_calls.set_queue(queue, **settings), connection)

    def set_queue_sync(
        self, queue: str, *, connection: Any = None, **settings: Unpack[QueueSettings]
    ) -> QueueState:
        """Do what ``set_queue`` does, without an event loop."""
        return self.run_sync(flow_calls.set_queue(queue, **settings), connection)

    async def task_types(self, *, connection: Any = None) -> list[TaskTypeState]:
        """Read all task types that have settings or tasks, with their breakers."""
        return await self.run(flow_calls.list_task_types(), connection)

    def task_types_sync(self, *, connection: Any = None) -> list[TaskTypeState]:
        """Do what ``task_types`` does, without an event loop."""
        return self.run_sync(flow_calls.list_task_types(), connection)

    async def set_task_type(
        self,
        task_type: str,
        *,
        paused: bool | None = None,
        actor: str | None = None,
        connection: Any = None,
        **limits: Unpack[TypeLimits],
    ) -> TaskTypeState:
        """Set what is given of a task type; from then on its code's own limits do not count.

        Args:
            task_type: Its name.
            paused: Whether nothing of it starts.
            actor: Who does it.
            connection: Set it inside the transaction that is open there.
            limits: See TypeLimits.
        """
        request = flow_calls.set_task_type(task_type, paused=paused, actor=actor, **limits)
        return await self.run(request, connection)

    def set_task_type_sync(
        self,
        task_type: str,
        *,
        paused: bool | None = None,
        actor: str | None = None,
        connection: Any = None,
        **limits: Unpack[TypeLimits],
    ) -> TaskTypeState:
        """Do what ``set_task_type`` does, without an event loop."""
        request = flow_calls.set_task_type(task_type, paused=paused, actor=actor, **limits)
        return self.run_sync(request, connection)

    async def open_breaker(
        self,
        task_type: str,
        *,
        duration: float | None = None,
        reason: str | None = None,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskTypeState:
        """Open the circuit breaker of a type, until it is closed or for ``duration`` seconds."""
        request = flow_calls.open_breaker(task_type, duration=duration, reason=reason, actor=actor)
        return await self.run(request, connection)

    def open_breaker_sync(
        self,
        task_type: str,
        *,
        duration: float | None = None,
        reason: str | None = None,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskTypeState:
        """Do what ``open_breaker`` does, without an event loop."""
        request = flow_calls.open_breaker(task_type, duration=duration, reason=reason, actor=actor)
        return self.run_sync(request, connection)

    async def close_breaker(
        self, task_type: str, *, actor: str | None = None, connection: Any = None
    ) -> TaskTypeState:
        """Close the circuit breaker of a type. Raises Conflict when it is not open."""
        return await self.run(flow_calls.close_breaker(task_type, actor=actor), connection)

    def close_breaker_sync(
        self, task_type: str, *, actor: str | None = None, connection: Any = None
    ) -> TaskTypeState:
        """Do what ``close_breaker`` does, without an event loop."""
        return self.run_sync(flow_calls.close_breaker(task_type, actor=actor), connection)

    async def tenants(self, *, connection: Any = None) -> list[TenantState]:
        """Read all tenants that have settings or tasks."""
        return await self.run(flow_calls.list_tenants(), connection)

    def tenants_sync(self, *, connection: Any = None) -> list[TenantState]:
        """Do what ``tenants`` does, without an event loop."""
        return self.run_sync(flow_calls.list_tenants(), connection)

    async def set_tenant(
        self, tenant: str, *, connection: Any = None, **settings: Unpack[TenantSettings]
    ) -> TenantState:
        """Set what is given of a tenant.

        Args:
            tenant: Its name.
            connection: Set it inside the transaction that is open there.
            settings: See TenantSettings.
        """
        return await self.run(flow_calls.set_tenant(tenant, **settings), connection)

    def set_tenant_sync(
        self, tenant: str, *, connection: Any = None, **settings: Unpack[TenantSettings]
    ) -> TenantState:
        """Do what ``set_tenant`` does, without an event loop."""
        return self.run_sync(flow_calls.set_tenant(tenant, **settings), connection)
