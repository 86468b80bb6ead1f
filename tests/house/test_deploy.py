"""Files for deployment: there is no container engine where tests run, so what can be read is checked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memproxy.config_file import load_settings
from memproxy.docs_check import ROOT, metrics_in_code

DEPLOY = ROOT / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "memproxy.json"
NOT_OURS = {"up"}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def expressions() -> Iterator[str]:
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def scraped() -> dict[str, set[str]]:
    """Every time series that a scrape of ours can hold, with its labels."""
    found = {}
    for name, kind, labels, _ in metrics_in_code():
        endings = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found.update({name + ending: set(labels) | ({"le"} if ending == "_bucket" else set()) for ending in endings})
    return found


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_dashboards_and_alerts_use_metrics_that_exist(expression: str) -> None:
    known = scraped()
    used = set(re.findall(r"\b(memproxy_\w+|up)\b(?!\")", expression)) - {"memproxy"}
    assert used, expression
    assert used - NOT_OURS <= set(known), expression
    labels = set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", expression)) - {"job"}
    labels |= {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert labels <= set().union(*(known[name] for name in used - NOT_OURS)), expression


def test_panels_of_the_dashboard_stand_beside_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


@pytest.mark.parametrize(
    "path", sorted(DEPLOY.rglob("*.yml")) + sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: path.name
)
def test_a_file_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_the_containers_configuration_can_be_used() -> None:
    environ = {"MEMPROXY__SERVER__HOST": "0.0.0.0"}
    settings = load_settings(DEPLOY / "memproxy.yaml", environ=environ)
    assert settings.auth.allow_remote
    assert settings.store.url == "http://qdrant:6333"
    assert set(settings.server.allowed_hosts) >= {"memproxy", "localhost", "127.0.0.1"}


def test_services_have_pinned_images_and_local_ports() -> None:
    for name, service in compose()["services"].items():
        if "image" in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_what_the_services_mount_is_there() -> None:
    file = compose()
    for service in file["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in file["volumes"]


def test_prometheus_scrapes_the_services() -> None:
    scrape = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    hosts = {target.split(":")[0] for job in scrape for each in job["static_configs"] for target in each["targets"]}
    assert hosts <= set(compose()["services"])


def test_the_image_copies_what_is_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in sent


def test_the_image_runs_without_rights_from_pinned_parts_and_reports_its_health() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER memproxy$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    assert "--require-hashes" in text
    assert all(re.search(r":\d+\.\d+", image) for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE))
