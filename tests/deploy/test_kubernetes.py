"""The Kubernetes objects follow their schemas, and name what exists."""

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from skiplane.web.access import OPEN

from .manifests import KUBERNETES, containers, kubernetes

# The oldest that still gets mends, and the newest that there are schemas for.
VERSIONS = ("1.33", "1.37")
COMPONENTS = ("keda", "hpa")
BASE = kubernetes()
ALL = [*BASE, *(kind for name in COMPONENTS for kind in kubernetes(KUBERNETES / name))]
PLAIN = [kind for kind in ALL if not kind["apiVersion"].startswith("keda.sh/")]
DEPLOYMENTS = {kind["metadata"]["name"]: kind for kind in BASE if kind["kind"] == "Deployment"}
WORKLOADS = [kind for kind in BASE if kind["kind"] in ("Deployment", "Job")]


def name_of(kind: dict[str, Any]) -> str:
    return f"{kind['kind']} {kind['metadata']['name']}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", PLAIN, ids=name_of)
def test_objects_follow_their_schemas(kind: dict[str, Any], version: str):
    kubernetes_validate.validate(kind, version, strict=True)


def test_schemas_refuse_what_they_do_not_know():
    wrong = copy.deepcopy(DEPLOYMENTS["skiplane-web"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_keda_objects_have_no_field_that_keda_does_not_know():
    """Its schemas come with KEDA only; an unknown field is dropped there without a word."""
    login, scaled = kubernetes(KUBERNETES / "keda")
    assert (login["kind"], scaled["kind"]) == ("TriggerAuthentication", "ScaledObject")
    (source,) = login["spec"].pop("secretTargetRef")
    assert set(source) == {"parameter", "name", "key"}
    assert not login["spec"]
    spec = scaled["spec"]
    assert set(spec) == {
        *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount"),
        *("maxReplicaCount", "fallback", "advanced", "triggers"),
    }
    assert set(spec["fallback"]) == {"failureThreshold", "replicas"}
    assert set(spec["advanced"]) == {"horizontalPodAutoscalerConfig"}
    # This part is an HPA's, and has its schema.
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"].pop("behavior")
    assert not spec["advanced"]["horizontalPodAutoscalerConfig"]
    hpa = copy.deepcopy(kubernetes(KUBERNETES / "hpa")[0])
    hpa["spec"]["behavior"] = behavior
    kubernetes_validate.validate(hpa, VERSIONS[-1], strict=True)
    (trigger,) = spec["triggers"]
    assert set(trigger) == {"type", "metadata", "authenticationRef"}
    assert trigger["authenticationRef"] == {"name": login["metadata"]["name"]}
    assert source["parameter"] == trigger["metadata"]["authMode"]
    # KEDA takes texts only.
    assert all(isinstance(value, str) for value in trigger["metadata"].values())


def test_names_are_unique():
    names = [name_of(kind) for kind in ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", WORKLOADS, ids=name_of)
def test_pods_have_few_rights_and_bounds(kind: dict[str, Any]):
    for container, pod in containers(kind):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
        assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]
        assert "memory" in container["resources"]["limits"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize("kind", DEPLOYMENTS.values(), ids=name_of)
def test_ports_and_probes_are_where_the_process_listens(kind: dict[str, Any]):
    ((container, _),) = containers(kind)
    role, *arguments = container["args"]
    option = "--port" if role == "web" else "--metrics-port"
    (port,) = container["ports"]
    assert str(port["containerPort"]) == arguments[arguments.index(option) + 1]
    probes = {name: value for name, value in container.items() if name.endswith("Probe")}
    assert "readinessProbe" in probes
    for probe in probes.values():
        assert probe["httpGet"]["port"] == port["name"]
        path = probe["httpGet"]["path"]
        assert path == "/metrics" if role != "web" else ("GET", path) in OPEN
    if role == "web":
        assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"
        # A database that is away must not have processes killed.
        assert probes["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert "0.0.0.0" in arguments
    if role == "worker":
        # One that is late would kill tasks.
        assert "livenessProbe" not in probes
    scraped = kind["spec"]["template"]["metadata"].get("annotations", {})
    if scraped:
        assert scraped["prometheus.io/port"] == str(port["containerPort"])


def test_selectors_select_the_pods_that_they_mean():
    for deployment in DEPLOYMENTS.values():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    budgets = {k["metadata"]["name"]: k for k in BASE if k["kind"] == "PodDisruptionBudget"}
    assert set(budgets) == set(DEPLOYMENTS)
    for name, budget in budgets.items():
        assert budget["spec"]["selector"] == DEPLOYMENTS[name]["spec"]["selector"]
        # With two replicas a budget of none would stop every drain of a node.
        assert budget["spec"]["maxUnavailable"] in (1, "25%")
    (service,) = (kind for kind in BASE if kind["kind"] == "Service")
    web = DEPLOYMENTS["skiplane-web"]["spec"]
    assert service["spec"]["selector"] == web["selector"]["matchLabels"]
    ((container, _),) = containers(DEPLOYMENTS["skiplane-web"])
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] == container["ports"][0]["name"]


def test_secrets_and_settings_are_there_to_be_found():
    (settings,) = (kind for kind in BASE if kind["kind"] == "ConfigMap")
    assert not [kind for kind in ALL if kind["kind"] == "Secret"]
    told = (KUBERNETES / "settings.yaml").read_text()
    for kind in WORKLOADS:
        for container, _ in containers(kind):
            (source,) = container["envFrom"]
            assert source["configMapRef"]["name"] == settings["metadata"]["name"]
            for entry in container["env"]:
                key = entry["valueFrom"]["secretKeyRef"]
                assert f"generic {key['name']} " in told
                assert f"--from-literal={key['key']}=" in told


def test_web_waits_for_its_proxies_before_it_stops():
    ((container, pod),) = containers(DEPLOYMENTS["skiplane-web"])
    sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + 10


def test_autoscalers_scale_a_deployment_and_have_its_number_to_themselves():
    for component in COMPONENTS:
        folder = KUBERNETES / component
        text = (folder / "kustomization.yaml").read_text()
        assert yaml.safe_load(text)["patches"][0]["patch"].split() == [
            *("-", "op:", "remove", "path:", "/spec/replicas")
        ]
        for kind in kubernetes(folder):
            target = kind["spec"].get("scaleTargetRef")
            assert target is None or target["name"] in DEPLOYMENTS


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("component", ["", *COMPONENTS])
def test_kustomize_builds_it(component: str, tmp_path: Path):
    folder = shutil.copytree(KUBERNETES, tmp_path / "kubernetes")
    path = folder / "kustomization.yaml"
    text = path.read_text()
    assert f"#  - {component}" in text
    path.write_text(text.replace("components: []", f"components: [{component}]"))
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = [kind for kind in yaml.safe_load_all(done.stdout) if kind]
    assert {kind["metadata"]["namespace"] for kind in built} == {"skiplane"}
    for kind in built:
        if not kind["apiVersion"].startswith("keda.sh/"):
            kubernetes_validate.validate(kind, VERSIONS[-1], strict=True)
        if name_of(kind) == "Deployment skiplane-worker":
            assert ("replicas" in kind["spec"]) == (not component)
        for container, _ in containers(kind):
            assert container["image"].endswith("/skiplane:0.1.0")
