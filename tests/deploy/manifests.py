"""Reading the shipped files, and what they say to run, in one form for all kinds."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes"
SYSTEMD = DEPLOY / "systemd"
# What is given to compose.yaml besides its defaults.
GIVEN = {"POSTGRES_PASSWORD": "secret"}


@dataclass(frozen=True)
class Process:
    """One way to start a role of Skiplane.

    Attributes:
        where: For people: file and name.
        arguments: Of ``skiplane``.
        environment: What the manifest sets; None where a secret has the value.
        stop_seconds: How long it may take to stop; None where nothing is said.
    """

    where: str
    arguments: list[str]
    environment: dict[str, str | None] = field(default_factory=dict)
    stop_seconds: float | None = None

    @property
    def role(self) -> str:
        """The command."""
        return self.arguments[0]

    def option(self, name: str) -> str | None:
        """Give the value of an option, None where it is not given."""
        if name not in self.arguments:
            return None
        return self.arguments[self.arguments.index(name) + 1]

    def __str__(self) -> str:
        return self.where


def compose() -> dict[str, Any]:
    """Read compose.yaml with its anchors and variables resolved."""
    found = re.sub(
        r"\$\{(\w+)(?::([-?])([^}]*))?\}", _variable, json.dumps(_load(COMPOSE.read_text())[0])
    )
    document: dict[str, Any] = json.loads(found)
    return document


def _variable(match: re.Match[str]) -> str:
    name, operator, text = match.groups()
    if operator == "-":
        return GIVEN.get(name, text)
    return GIVEN[name]


def _load(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def kubernetes(folder: Path = KUBERNETES) -> list[dict[str, Any]]:
    """Read the objects that a folder's kustomization lists."""
    listed = _load((folder / "kustomization.yaml").read_text())[0]["resources"]
    return [document for name in listed for document in _load((folder / name).read_text())]


def containers(kind: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give each container of an object, with its pod."""
    pod = kind.get("spec", {}).get("template", {}).get("spec", {})
    for container in pod.get("containers", ()):
        yield container, pod


def unit(name: str) -> dict[str, list[str]]:
    """Read a unit: the values of each key, in order, whatever its section."""
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def env_file(path: Path) -> dict[str, str]:
    """Read a file of NAME=value lines, those in comments included."""
    lines = re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", path.read_text(), re.M)
    return dict(lines)


def processes() -> list[Process]:
    """Give every start of Skiplane that the shipped files hold."""
    return [*_of_compose(), *_of_kubernetes(), *_of_systemd()]


def _of_compose() -> Iterator[Process]:
    for name, service in compose()["services"].items():
        if service["image"] == "skiplane":
            stop = service.get("stop_grace_period")
            yield Process(
                f"compose.yaml {name}",
                service["command"],
                dict(service["environment"]),
                None if stop is None else float(stop.removesuffix("s")),
            )


def _of_kubernetes() -> Iterator[Process]:
    objects = kubernetes()
    settings = next(kind["data"] for kind in objects if kind["kind"] == "ConfigMap")
    for kind in objects:
        for container, pod in containers(kind):
            environment = dict(settings)
            environment |= {entry["name"]: entry.get("value") for entry in container["env"]}
            yield Process(
                f"kubernetes {kind['metadata']['name']}",
                container["args"],
                environment,
                pod.get("terminationGracePeriodSeconds"),
            )


def _of_systemd() -> Iterator[Process]:
    given = env_file(SYSTEMD / "worker-default.env")
    for path in sorted(SYSTEMD.glob("*.service")):
        said = unit(path.name)
        line = said["ExecStart"][0].replace("$WORKER_ARGS", given["WORKER_ARGS"])
        program, *arguments = shlex.split(line)
        assert os.path.basename(program) == "skiplane"
        stop = said.get("TimeoutStopSec")
        yield Process(
            f"systemd {path.name}",
            arguments,
            dict(env_file(SYSTEMD / "skiplane.env")),
            float(stop[0]) if stop else None,
        )
