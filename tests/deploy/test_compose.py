"""compose.yaml is what the compose specification allows, and its parts fit together."""

import json
import re
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from .manifests import DEPLOY, ROOT, compose

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "skiplane"}
NODES = {name: s for name, s in SERVICES.items() if s["image"] == "skiplane-citus"}
LONG = [name for name, s in SERVICES.items() if s["restart"] == "unless-stopped"]


def test_it_follows_the_specification():
    compose_spec.PyCompose.from_json(json.dumps(compose())).validate()


def test_the_specification_refuses_what_it_does_not_know():
    wrong = compose()
    wrong["services"]["web"]["stop_grace"] = "20s"
    with pytest.raises(ValueError, match="stop_grace"):
        compose_spec.PyCompose.from_json(json.dumps(wrong))


def test_volumes_and_services_that_are_named_exist():
    named = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if not volume.startswith((".", "/"))
    }
    assert named == set(compose()["volumes"])
    for service in SERVICES.values():
        for other, wanted in service.get("depends_on", {}).items():
            ends = SERVICES[other]["restart"] == "on-failure"
            condition = "service_completed_successfully" if ends else "service_healthy"
            assert wanted == {"condition": condition}
            assert ends or "healthcheck" in SERVICES[other]


def test_mounted_files_exist():
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            if volume.startswith("."):
                assert (ROOT / volume.split(":")[0]).exists(), (name, volume)


@pytest.mark.parametrize("name", LONG)
def test_what_goes_on_running_has_a_health_check_and_few_rights(name: str):
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    if service["image"] != "skiplane-citus":  # which starts as root to take its volume over
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_health_checks_ask_where_the_process_listens(name: str):
    service = OURS[name]
    command = service["command"]
    option = "--port" if name == "web" else "--metrics-port"
    port = command[command.index(option) + 1]
    *start, code = service["healthcheck"]["test"]
    assert start == ["CMD", "python", "-c"]
    compile(code, name, "exec")
    path = "/readyz" if name == "web" else "/metrics"
    assert f'"http://127.0.0.1:{port}{path}"' in code
    if name == "web":
        assert service["ports"][0].endswith(f":{port}")


def test_our_containers_write_nowhere_and_wait_for_the_migration():
    for name, service in OURS.items():
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"]
        if name != "migrate":
            assert "migrate" in service["depends_on"]
    assert list(OURS["migrate"]["depends_on"]) == ["cluster"]


def test_the_cluster_is_told_each_of_its_nodes():
    said = " ".join(NODES["cluster"]["command"])
    assert re.findall(r"citus_set_coordinator_host\('(\w+)', 5432\)", said) == ["coordinator"]
    workers = re.findall(r"citus_add_node\('(\w+)', 5432\)", said)
    assert set(workers) == set(NODES) - {"coordinator", "cluster"}
    assert set(NODES["cluster"]["depends_on"]) == {"coordinator", *workers}
    assert len(workers) == 2
    # Shards move online only with logical replication.
    assert "--wal_level=logical" in NODES["coordinator"]["command"]


def test_every_node_has_pg_partman():
    image = (DEPLOY / "citus" / "Containerfile").read_text()
    assert "partman" in image
    copied = re.search(r"^COPY (\S+) /docker-entrypoint-initdb.d/", image, re.M)
    assert copied is not None
    assert "create extension pg_partman" in (ROOT / copied[1]).read_text()


def test_the_image_is_unprivileged_and_one_for_all_roles():
    stages = (DEPLOY / "Containerfile").read_text().split("\nFROM ")
    last = stages[-1]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.M)
    assert last.index("USER ") > last.index("RUN ")
    assert 'ENTRYPOINT ["tini", "--", "skiplane"]' in last
    assert "tini" in last[: last.index("USER")]


def test_the_image_takes_extras_that_exist_and_a_context_with_the_package_in_it():
    project = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"'\.\[([\w,]+)\]'", (DEPLOY / "Containerfile").read_text())
    assert extras is not None
    for extra in extras[1].split(","):
        assert f"\n{extra} = [" in project
    left_out = {
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    }
    block = re.search(r"only-include = \[\n(.*?)\]", project, re.S)
    assert block is not None
    included = set(re.findall(r'"([^"]+)"', block[1]))
    assert included
    assert not included & left_out


def test_prometheus_scrapes_services_at_their_ports():
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    for scrape in config["scrape_configs"]:
        (found,) = scrape["dns_sd_configs"]
        (name,) = found["names"]
        command = SERVICES[name]["command"]
        option = "--port" if name == "web" else "--metrics-port"
        assert command[command.index(option) + 1] == str(found["port"])
        assert ("authorization" in scrape) == (name == "web")
    mounted = {Path(v.split(":")[1]) for v in SERVICES["prometheus"]["volumes"] if v[0] == "."}
    folder = Path("/etc/prometheus")
    assert {folder / name for name in config["rule_files"]} <= mounted
    (key,) = SERVICES["prometheus"]["secrets"]
    files = [scrape["authorization"]["credentials_file"] for scrape in config["scrape_configs"][:1]]
    assert files == [f"/run/secrets/{key}"]


def test_grafana_finds_prometheus_and_the_dashboard():
    folder = DEPLOY / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())
    port = SERVICES["prometheus"]["ports"][0].rsplit(":", 1)[1]
    assert source["datasources"][0]["url"] == f"http://prometheus:{port}"
    provider = yaml.safe_load((folder / "dashboards" / "skiplane.yml").read_text())
    path = provider["providers"][0]["options"]["path"]
    mounted = {v.split(":")[1] for v in SERVICES["grafana"]["volumes"]}
    assert f"{path}/skiplane.json" in mounted
    assert "/etc/grafana/provisioning" in mounted
