"""Finding the app whose tasks a worker runs."""

import importlib
from typing import Any

from .registry import Registry


class AppNotFound(Exception):
    """The app cannot be imported; the message says what to correct."""


def load_registry(name: str) -> Registry:
    """Import an app and give its task definitions.

    Args:
        name: ``module:attribute``, or ``module`` when it has exactly one app; empty
            for no tasks at all.

    Raises:
        AppNotFound: There is no such module, attribute or app. Errors that the
            module itself raises while it is imported pass through.
    """
    return load_app(name)[0] if name else Registry()


def load_app(name: str) -> tuple[Registry, Any, str]:
    """Import an app and give its task definitions, the app itself, and ``module:attribute``.

    The app is None where the attribute is a bare Registry. Raises as load_registry.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # something that the module itself imports
        raise AppNotFound(
            f"There is no module {module_name!r}. Start the worker in the folder that holds it,"
            " or put that folder on PYTHONPATH."
        ) from error
    if attribute:
        return *_registry(getattr(module, attribute, None), name), name
    apps = {id(value): key for key, value in vars(module).items() if _is_app(value)}
    if len(apps) != 1:
        raise AppNotFound(
            f"The module {module_name!r} has {len(apps)} Skiplane apps. Name one:"
            f" {module_name}:app."
        )
    attribute = next(iter(apps.values()))
    return *_registry(getattr(module, attribute), name), f"{module_name}:{attribute}"


def _is_app(value: Any) -> bool:
    return not isinstance(value, type) and isinstance(getattr(value, "registry", None), Registry)


def _registry(value: Any, name: str) -> tuple[Registry, Any]:
    if isinstance(value, Registry):
        return value, None
    if not _is_app(value):
        raise AppNotFound(f"{name!r} is no Skiplane app.")
    registry: Registry = value.registry
    return registry, value
