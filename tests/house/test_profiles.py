"""The example configuration, the profiles, and what the generated pages say."""

from pathlib import Path

import pytest
import yaml

from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from memproxy.settings.reference import settings_of
from tests import docs_check

ROOT = docs_check.ROOT
ENVIRONMENT = {
    "AZURE_OPENAI_RESOURCE": "somebody",
    "MEMPROXY_MODEL_PATH": "/models/minilm",
    "MEMPROXY_PUBLIC_HOST": "memory.test",
    "QDRANT_URL": "http://qdrant.test:6333",
}
PROFILES = sorted((ROOT / "config").glob("*.yaml"))


def test_the_example_is_the_defaults() -> None:
    assert load_settings(ROOT / "config.example.yaml", environ={}) == Settings()


def test_the_example_takes_its_upstream_from_the_environment() -> None:
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    settings = load_settings(ROOT / "config.example.yaml", environ=environ)
    assert settings.upstream.base_url == "http://127.0.0.1:9/v1"


def test_the_example_has_every_setting() -> None:
    example = yaml.safe_load((ROOT / "config.example.yaml").read_text(encoding="utf-8"))
    for setting in settings_of():
        value = example
        for name in setting.path.split("."):
            assert name in value, setting.path
            value = value[name]


def test_all_profiles_are_there() -> None:
    expected = {"openai", "azure", "anthropic", "ollama", "vllm", "air-gapped", "cluster"}
    assert {path.stem for path in PROFILES} >= expected


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_loads(path: Path) -> None:
    settings = load_settings(path, environ=ENVIRONMENT)
    assert settings.upstream.base_url.startswith(("http://", "https://"))
    assert settings.server == Settings().server or path.stem == "cluster"


def test_the_profile_for_a_cluster_lets_nobody_in_without_a_key() -> None:
    settings = load_settings(ROOT / "config" / "cluster.yaml", environ=ENVIRONMENT)
    assert (settings.auth.mode, settings.auth.allow_remote) == ("keys", False)
    assert (settings.store.backend, settings.store.url) == ("qdrant", "http://qdrant.test:6333")
    assert settings.server.allowed_hosts == ["memory.test"]
    assert load_settings(ROOT / "config" / "cluster.yaml", environ={}).auth.mode == "keys"


@pytest.mark.parametrize("name", ["azure", "air-gapped"])
def test_a_profile_says_which_variable_it_needs(name: str) -> None:
    with pytest.raises(ConfigError, match="environment variable"):
        load_settings(ROOT / "config" / f"{name}.yaml", environ={})


def test_the_generated_parts_are_what_the_code_says() -> None:
    changed = [str(path) for path, text in docs_check.wanted().items() if path.read_text(encoding="utf-8") != text]
    assert not changed, f"run: python -m tests.docs_check --write ({changed})"


def test_links_between_pages_lead_somewhere() -> None:
    assert not docs_check.broken_links()


def test_a_page_is_read_in_a_sitting(tmp_path: Path) -> None:
    assert not docs_check.long_pages()
    (tmp_path / "README.md").write_text("line\n" * 201 + "<!-- generated: cli -->\nx\n<!-- end -->\n")
    assert docs_check.long_pages(tmp_path) == ["README.md has 202 lines, over 200"]


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("[a](docs/a.md) [b](#b) [c](http://x.test) [d](README.md#x)")
    assert docs_check.broken_links(tmp_path) == ["README.md: the link docs/a.md leads nowhere"]


def test_a_page_is_filled_between_its_marks_and_nowhere_else() -> None:
    page = "before\n<!-- generated: metrics -->\nof yesterday\n<!-- end -->\nafter\n"
    filled = docs_check.filled(page)
    assert filled.startswith("before\n<!-- generated: metrics -->\n\n| metric |")
    assert filled.endswith("<!-- end -->\nafter\n")
    assert "of yesterday" not in filled
    assert docs_check.filled(filled) == filled


def test_every_metric_of_the_code_is_found() -> None:
    source = (ROOT / "memproxy" / "metrics.py").read_text(encoding="utf-8")
    names = {name for name, *_ in docs_check.metrics_in_code()}
    assert len(names) == source.count('"memproxy_')
    assert {"memproxy_requests_total", "memproxy_store_points", "memproxy_learn_seconds"} <= names
