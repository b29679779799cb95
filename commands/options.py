"""Command-line options that come from the settings."""

import functools
from collections.abc import Callable
from typing import Any, get_args

import rich_click as click

from ..config import SETTINGS, env_name, load_config, remedy


def configured(*settings: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each setting and the loaded ``config``.

    Args:
        settings: Names of fields of Config that this command lets its caller
            set, e.g. ``"dsn", "lease_seconds"``.

    The command is called with ``config``, and without the single options.
    ConfigError from loading passes through.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**given: Any) -> Any:
            flags = {setting: given.pop(setting) for setting in settings}
            return command(config=load_config(flags), **given)

        decorated: Callable[..., Any] = run
        for setting in reversed(settings):
            decorated = _option(setting)(decorated)
        return decorated

    return decorate


def _option(setting: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    default = SETTINGS[setting].default
    shown = f", default {default}" if isinstance(default, str | int | float) else ""
    # Left as text: Config checks values, with one message for all sources.
    flag = f"--{setting.replace('_', '-')}"
    if bool in get_args(get_args(SETTINGS[setting].type)[0]):
        flag += f"/--no-{flag[2:]}"
    return click.option(
        flag,
        setting,
        default=None,
        metavar="TEXT" if isinstance(default, str) else None,
        help=f"{remedy(setting).capitalize()}{shown} ({env_name(setting)}).",
    )
