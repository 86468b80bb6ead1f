"""The folder of memproxy's own files and the secret in it."""

import logging
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.settings import StateSettings, StoreSettings
from memproxy.settings.home import home_dir, secret, state_path, store_path


def test_the_home_folder_can_be_named(tmp_path: Path) -> None:
    assert home_dir({"MEMPROXY_HOME": str(tmp_path / "here")}) == tmp_path / "here"
    assert home_dir({}) == Path.home() / ".memproxy"
    assert home_dir({"MEMPROXY_HOME": ""}) == Path.home() / ".memproxy"


def test_store_and_state_live_below_home_unless_named(tmp_path: Path) -> None:
    assert store_path(StoreSettings(), tmp_path) == tmp_path / "store"
    assert state_path(StateSettings(), tmp_path) == tmp_path / "state.db"
    assert store_path(StoreSettings(path=tmp_path / "x"), tmp_path) == tmp_path / "x"
    assert state_path(StateSettings(path=tmp_path / "y"), tmp_path) == tmp_path / "y"


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    first = secret({}, home)
    assert len(first) >= 32
    assert secret({}, home) == first
    assert stat.S_IMODE((home / "secret").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["secret"]


def test_a_secret_in_the_environment_wins_and_leaves_no_file(tmp_path: Path) -> None:
    assert secret({"MEMPROXY_SECRET": "ours"}, tmp_path) == b"ours"
    assert not list(tmp_path.iterdir())


def test_processes_that_start_at_once_agree_on_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda _: secret({}, tmp_path), range(32)))
    assert len(seen) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_secret_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    value = secret({}, tmp_path)
    (tmp_path / "secret").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert secret({}, tmp_path) == value
    assert "chmod 600" in caplog.text
    assert value.decode() not in caplog.text


def test_a_damaged_secret_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="restore it"):
        secret({}, tmp_path)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="MEMPROXY_HOME"):
        secret({}, tmp_path / "file" / "home")
