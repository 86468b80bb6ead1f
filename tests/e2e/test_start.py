"""Starts that must be refused: exit code 1 and a message that says what to do."""

import socket
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from memproxy.commands import app
from memproxy.errors import ConfigError
from tests.support.proxy import Proxy, base_config, free_port, memproxy, merged


def config_file(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(merged(base_config("http://127.0.0.1:9/v1", free_port()), changes)))
    return file


async def test_a_second_serve_on_one_store_is_refused_and_names_the_first(shared_proxy: Proxy, tmp_path: Path) -> None:
    second = memproxy(shared_proxy.home, "serve", "--config", str(config_file(tmp_path)))
    assert second.returncode == 1
    assert str(shared_proxy.process.pid) in second.stderr
    assert str(shared_proxy.port) in second.stderr
    assert (await shared_proxy.readiness())[0] == 200, "the first is not disturbed"


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = memproxy(tmp_path / "home", "serve", "--config", str(config_file(tmp_path)), "--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


INVALID = {
    "unknown key": ({"recall": {"limmit": 3}}, "recall.limmit"),
    "unknown section": ({"recal": {"limit": 3}}, "recal"),
    "bad value": ({"recall": {"limit": "many"}}, "recall.limit"),
    "unknown recipe": ({"recall": {"recipe": "best"}}, "`default`, `late`, `dense`, `rrf`, `average`, `bm25`, "),
    "unknown stage": ({"recall": {"stages": ["fused", "magic"]}}, "recall.stages.1"),
    "negative budget": ({"recall": {"max_tokens": -1}}, "recall.max_tokens"),
    "out of range": ({"recall": {"similarity_threshold": 7}}, "recall.similarity_threshold"),
    "unset environment variable": ({"upstream": {"api_key": "${SURELY_NOT_SET_ANYWHERE}"}}, "SURELY_NOT_SET_ANYWHERE"),
    "certificates that are not there": ({"upstream": {"ca_file": "/nowhere/ca.pem"}}, "upstream.ca_file"),
    "a token key that is not there": (
        {"auth": {"mode": "jwt", "jwt": {"key_file": "/nowhere/key.pem", "tenant": "t", "algorithms": ["RS256"]}}},
        "auth.jwt.key_file",
    ),
    "a model of unknown vector length": (
        {"embedding": {"provider": "fastembed", "model": "x/y"}},
        "embedding.dimension",
    ),
    "remote passthrough": ({"server": {"host": "0.0.0.0"}}, "auth.allow_remote"),
}


@pytest.mark.parametrize(("changes", "named"), INVALID.values(), ids=INVALID.keys())
def test_an_invalid_configuration_is_refused_and_names_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], named: str
) -> None:
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError) as refused:  # what ends the command with code 1: seen from outside below
        app(["serve", "--config", str(config_file(tmp_path, **changes))], standalone_mode=False)
    assert named in refused.value.message


def test_a_configuration_that_is_missing_no_yaml_or_wrong_ends_the_command_with_code_1_and_its_message(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("server: [unclosed")
    wrong = config_file(tmp_path, recall={"limmit": 3})
    for file, told in ((tmp_path / "absent.yaml", "absent.yaml"), (broken, "broken.yaml"), (wrong, "recall.limmit")):
        done = memproxy(tmp_path / "home", "serve", "--config", str(file))
        assert done.returncode == 1
        assert told in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["--port=70000", "--port=-1", "--upstream=ftp://x", "--upstream=x", "--unknown"])
def test_a_value_that_an_option_of_serve_does_not_take_is_bad_usage(value: str) -> None:
    refused = CliRunner().invoke(app, ["serve", value])
    assert refused.exit_code == 2
    assert value.partition("=")[0] in refused.stderr
