"""Files for deployment: there is no container engine where tests run, so what can be read is checked."""

import configparser
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from tests.docs_check import ROOT, metrics_in_code

DEPLOY = ROOT / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
NOT_OURS = {"up"}


COMPOSE_FILES = ("docker-compose.yml", "compose.cluster.yml")
KUBERNETES = DEPLOY / "kubernetes"


def text_of(name: str) -> str:
    """A file below ``deploy``."""
    return (DEPLOY / name).read_text(encoding="utf-8")


def loaded(name: str) -> Any:
    """What a file of YAML or JSON below ``deploy`` holds."""
    return yaml.safe_load(text_of(name))


def services_of(name: str = "docker-compose.yml") -> dict[str, Any]:
    found: dict[str, Any] = loaded(name)["services"]
    return found


def settings_of(name: str = "memproxy.yaml", **environ: str) -> Settings:
    return load_settings(DEPLOY / name, environ=environ)


BY_ANY_ADDRESS = {"MEMPROXY__SERVER__HOST": "0.0.0.0"}


def expressions() -> Iterator[str]:
    for rules in ("alerts.yml", "recording.yml"):
        for group in loaded(rules)["groups"]:
            yield from (rule["expr"] for rule in group["rules"])
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", []))


def panels() -> Iterator[dict[str, Any]]:
    """The panels of all dashboards; what is in a row stands behind it."""
    for dashboard in DASHBOARDS:
        yield from json.loads(dashboard.read_text(encoding="utf-8"))["panels"]


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
    labels -= {"instance", "job"}  # every scrape has them
    assert labels <= set().union(*(known[name] for name in used - NOT_OURS)), expression


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.name)
def test_panels_of_a_dashboard_stand_beside_each_other(dashboard: Path) -> None:
    found = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in found}) == len(found)


def told_by(command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
    """A program that has ended; with an environment of just these variables, if any is named."""
    return subprocess.run(command, env=environ or None, capture_output=True, text=True, check=False)


def test_dashboards_are_two_and_told_apart() -> None:
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == len(boards) == 2


@pytest.mark.parametrize(
    "path", sorted(DEPLOY.rglob("*.yml")) + sorted(DEPLOY.rglob("*.yaml")), ids=lambda path: path.name
)
def test_a_file_is_yaml(path: Path) -> None:
    assert all(isinstance(one, dict) for one in yaml.safe_load_all(path.read_text(encoding="utf-8")))


def test_the_image_alone_has_memory() -> None:
    """Nothing but the image is run: no server is waited for, the store is in files."""
    settings = settings_of(**BY_ANY_ADDRESS)
    assert settings.auth.allow_remote
    assert (settings.store.backend, settings.store.url, settings.store.api_key) == ("edge", None, None)
    assert set(settings.server.allowed_hosts) >= {"memproxy", "localhost", "127.0.0.1"}


def test_the_compose_file_chooses_the_qdrant_server_that_it_starts() -> None:
    services = services_of()
    environ = {name: str(value) for name, value in services["memproxy"]["environment"].items() if "$" not in str(value)}
    settings = settings_of(**BY_ANY_ADDRESS | environ)
    assert settings.store.backend == "qdrant"
    assert settings.store.url == "http://qdrant:6333"
    assert "qdrant" in services


def test_a_qdrant_address_alone_is_no_silent_switch_of_stores() -> None:
    with pytest.raises(ConfigError, match=r"set store\.backend: qdrant"):
        settings_of(**BY_ANY_ADDRESS, QDRANT_URL="http://qdrant:6333")


@pytest.mark.parametrize("file", COMPOSE_FILES)
def test_services_have_pinned_images_local_ports_and_mount_what_is_there(file: str) -> None:
    kept = loaded(file)["volumes"]
    for name, service in services_of(file).items():
        if "image" in service:
            assert re.search(r":v?\d+\.\d+\.\d+(-pg\d+)?$", service["image"]), name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in kept


@pytest.mark.parametrize(
    ("file", "scraping"), [("docker-compose.yml", "prometheus.yml"), ("compose.cluster.yml", "prometheus.cluster.yml")]
)
def test_prometheus_scrapes_the_services_and_has_all_rules(file: str, scraping: str) -> None:
    config, services = loaded(scraping), services_of(file)
    jobs = [each for job in config["scrape_configs"] for each in job["static_configs"]]
    assert {target.split(":")[0] for each in jobs for target in each["targets"]} <= set(services)
    assert config["rule_files"] == ["alerts.yml", "recording.yml"]
    mounted = {volume.split(":")[0] for volume in services["prometheus"]["volumes"]}
    assert {f"./{name}" for name in (*config["rule_files"], scraping)} <= mounted


def test_replicas_share_what_is_on_servers_and_nothing_else() -> None:
    services = services_of("compose.cluster.yml")
    replicas = {name: one for name, one in services.items() if name.startswith("memproxy-")}
    mounted = [volume.split(":") for one in replicas.values() for volume in one["volumes"]]
    assert len(replicas) == len({source for source, *target in mounted if target == ["/data"]}) == 2
    for replica in replicas.values():
        environ = {name: re.sub(r"\$\{[^}]*\}", "x", str(value)) for name, value in replica["environment"].items()}
        environ["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
        settings = load_settings(ROOT / "config" / "cluster.yaml", environ=environ)
        assert settings.state.url == "postgresql://memproxy:x@postgres/memproxy"
        assert settings.store.url == "http://qdrant:6333"
        assert {"postgres", "qdrant"} <= set(services)
    assert set(re.findall(r"server (\S+):8484 ", text_of("balancer.conf"))) == set(replicas)
    asked = set(re.findall(r"\$\{(\w+)[:}]", text_of("compose.cluster.yml")))
    offered = set(re.findall(r"^(\w+)=", text_of(".env.example"), re.MULTILINE))
    assert asked == offered


def test_kubernetes_has_the_profile_for_a_cluster_and_its_probes() -> None:
    assert text_of("kubernetes/memproxy.yaml") == (ROOT / "config" / "cluster.yaml").read_text(encoding="utf-8")
    pods = loaded("kubernetes/replicas.yaml")["spec"]["template"]["spec"]
    (container,) = pods["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert pods["terminationGracePeriodSeconds"] > settings_of().server.shutdown_grace_s
    secret = loaded("kubernetes/secret.example.yaml")["stringData"]
    environ = {**{name: value or "x" for name, value in secret.items()}, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    environ |= {one["name"]: one["value"] for one in container["env"]}
    assert settings_of("kubernetes/memproxy.yaml", **environ).state.backend == "postgres"
    assert all((KUBERNETES / name).exists() for name in loaded("kubernetes/kustomization.yaml")["resources"])
    scaled = loaded("kubernetes/autoscaling.yaml")["spec"]["metrics"]
    wanted = {one[kind]["metric"]["name"] for one in scaled for kind in ("pods", "external") if kind in one}
    rules = loaded("kubernetes/adapter.yaml")["rules"]
    assert wanted == {rule["name"]["as"] for kind in rules.values() for rule in kind}
    assert set(re.findall(r"\b(memproxy_\w+)\{", text_of("kubernetes/adapter.yaml"))) <= set(scraped())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_renders_what_is_applied() -> None:
    done = told_by(["kubectl", "kustomize", str(KUBERNETES)])
    assert done.returncode == 0, done.stderr
    kinds = [one["kind"] for one in yaml.safe_load_all(done.stdout)]
    assert {"StatefulSet", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ConfigMap"} <= set(kinds)


def test_the_image_copies_what_is_there() -> None:
    text = text_of("Dockerfile")
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in sent


def test_the_image_runs_without_rights_from_pinned_parts_and_reports_its_health() -> None:
    text = text_of("Dockerfile")
    assert re.search(r"^USER memproxy$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    assert "--require-hashes" in text
    assert all(re.search(r":\d+\.\d+", image) for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE))


def health_check() -> list[str]:
    """The image's health check, for this machine."""
    text = text_of("Dockerfile")
    found = re.search(r"^HEALTHCHECK .*\\\n\s*CMD (\[.*\])$", text, re.MULTILINE)
    assert found
    python, *options, script = json.loads(found[1])
    assert (python, script) == ("python", "/opt/healthcheck.py")
    return [sys.executable, *options, str(DEPLOY / "healthcheck.py")]


@contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """A port where every request gets this answer; None: the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked = connection.recv(1000)
                if answer is not None and asked.startswith(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join()


@pytest.mark.parametrize(
    ("answer", "ends_with"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 0),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", 1),
        (None, 1),
    ],
)
def test_the_health_check_tells_a_healthy_server_from_others(answer: bytes | None, ends_with: int) -> None:
    with answering(answer) as port:
        done = told_by(health_check(), MEMPROXY__SERVER__PORT=str(port))
    assert done.returncode == ends_with, done.stdout
    assert not done.stderr


def test_the_health_check_ends_where_nobody_listens_and_loads_no_package() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    python, *options, script = health_check()
    asked = f"runpy.run_path({script!r}, run_name='__main__')"
    program = f"import runpy, sys\ntry:\n    {asked}\nfinally:\n    print(*sys.modules)"
    done = told_by([python, *options, "-c", program], MEMPROXY__SERVER__PORT=str(port))
    assert done.returncode == 1
    loaded = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()} - {"__main__"}
    assert loaded <= set(sys.stdlib_module_names), loaded - set(sys.stdlib_module_names)
    assert not loaded & {"http", "urllib", "asyncio", "ssl", "httpx"}


UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])


def unit(path: Path) -> configparser.RawConfigParser:
    parsed = configparser.RawConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(path.read_text(encoding="utf-8"))
    return parsed


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_service_starts_a_command_that_there_is_and_may_write_its_own_folders_only(path: Path) -> None:
    service = unit(path)["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == "/opt/memproxy/bin/memproxy"
    known = told_by([sys.executable, "-m", "memproxy", arguments[0], "--help"])
    assert known.returncode == 0, known.stderr
    assert all(option in known.stdout for option in arguments if option.startswith("--"))
    assert service["User"] == service["StateDirectory"] == "memproxy"
    assert (service["ProtectSystem"], service["ProtectHome"], service["NoNewPrivileges"]) == ("strict", "yes", "yes")
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"


def test_the_service_comes_back_and_gives_streams_time_to_end() -> None:
    service = unit(DEPLOY / "memproxy.service")["Service"]
    assert service["Restart"] == "always"
    assert int(service["TimeoutStopSec"]) > settings_of().server.shutdown_grace_s
    assert service["KillMode"] == "mixed"  # the supervisor ends the others in their order


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/memproxy/bin/memproxy", sys.executable)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / path.name) for path in UNITS]
    verified = told_by(["systemd-analyze", "verify", *files])
    said = [line for line in verified.stderr.splitlines() if str(tmp_path) in line]
    assert not said, "\n".join(said)
    for service in [file for file in files if file.endswith(".service")]:
        judged = told_by(["systemd-analyze", "security", "--offline=yes", "--threshold=30", service])
        if "unrecognized option" in judged.stderr:
            pytest.skip("this systemd-analyze judges no files")
        assert judged.returncode == 0, judged.stdout[-500:] + judged.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_takes_the_data_source_of_whoever_imports_it(path: Path) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    (variable,) = dashboard["templating"]["list"]
    assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus")
    assert variable["current"]["value"] == "default"
    assert dashboard["__inputs"] == []
    assert {one["id"] for one in dashboard["__requires"]} == {
        *("grafana", "prometheus"),
        *({panel["type"] for panel in dashboard["panels"]} - {"row"}),
    }
    named = re.findall(r'"uid": "([^"]*)"', path.read_text(encoding="utf-8"))
    assert set(named) == {"${datasource}", dashboard["uid"]}, "a data source that only our own Grafana has"
    shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in shown)


def test_no_label_can_hold_a_person() -> None:
    for name, _, labels, _ in metrics_in_code():
        assert not set(labels) & {"user", "user_id", "tenant", "session", "project", "agent", "key", "model"}, name
