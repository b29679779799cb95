"""Task types that every worker has, unless they are switched off."""

from functools import cached_property

from ...schema.pools import AsyncPool
from ..registry import Registry, TaskDefinition
from ..settings import WorkerSettings
from .client import Client
from .deliver import Deliver
from .networks import parse_networks
from .notify import Notify, NotifyUnusable
from .procedure import run as call_procedure
from .web import Http

__all__ = ["NotifyUnusable", "register"]

_CONNECTIONS = 2


class _Shared:
    """What the built-in tasks of one process have in common, made at the first use."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    @cached_property
    def client(self) -> Client:
        return Client(parse_networks(self._settings.allow_networks))

    @cached_property
    def pool(self) -> AsyncPool:
        settings = self._settings
        return AsyncPool(settings.dsn, _CONNECTIONS, role="task", prepare=settings.prepare)


def register(registry: Registry, settings: WorkerSettings) -> None:
    """Add the built-in task types to those of the app.

    A type of that name which the app itself has stays the app's.

    Raises:
        NotifyUnusable: The settings for messages cannot be used.
    """
    if not settings.builtin_tasks:
        return
    shared = _Shared(settings)
    http = Http(lambda: shared.client)
    deliver = Deliver(lambda: shared.client, lambda: shared.pool)
    found = [
        TaskDefinition(name="skiplane.http", function=http.run, mode="async", takes_context=True),
        TaskDefinition(
            name="skiplane.webhook", function=deliver.run, mode="async", takes_context=True
        ),
        TaskDefinition(
            name="skiplane.sql", function=call_procedure, mode="async", takes_context=True
        ),
    ]
    if settings.notify_config:
        notify = Notify(settings.notify_config)
        found.append(TaskDefinition(name="skiplane.notify", function=notify.run, mode="async"))
    for definition in found:
        if registry.get(definition.name) is None:
            registry.add(definition)
