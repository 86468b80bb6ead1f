"""Taking the port and the store, and handing over settings."""

import io
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.logs import JsonFormatter, LogLimit, setup
from memproxy.serve.instance import AlreadyServed, InstanceLock, runtime_folder
from memproxy.serve.launch import Launch, hears_hangups, reveal
from memproxy.serve.supervisor import Supervisor, bind
from memproxy.settings import ServerSettings, Settings, UpstreamSettings


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[InstanceLock]:
    held = InstanceLock(tmp_path / "state.db")
    held.acquire()
    yield held
    held.release()


def test_a_second_holder_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    first = InstanceLock(tmp_path / "state.db")
    first.acquire()
    first.announce("http://127.0.0.1:8484")
    with pytest.raises(AlreadyServed, match=rf"pid {os.getpid()} at http://127\.0\.0\.1:8484"):
        InstanceLock(tmp_path / "state.db").acquire()
    first.release()
    again = InstanceLock(tmp_path / "state.db")
    again.acquire()
    again.release()


def test_a_killed_holders_lock_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from memproxy.serve.instance import InstanceLock;"
        "InstanceLock(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "state.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyServed, match=f"pid {holder.pid}"):
            InstanceLock(tmp_path / "state.db").acquire()
        holder.kill()
        holder.wait()
        lock = InstanceLock(tmp_path / "state.db")
        lock.acquire()
        lock.release()


def test_a_folder_that_cannot_be_made_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match="MEMPROXY_HOME") as refused:
        InstanceLock(tmp_path / "file" / "state.db").acquire()
    assert not isinstance(refused.value, AlreadyServed)


def test_a_port_in_use_is_told_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1:{port}.*--port"):
            bind("127.0.0.1", port)


def test_a_host_that_is_no_address_is_told() -> None:
    with pytest.raises(ConfigError, match=r"server\.host"):
        bind("no such host.invalid", 0)


def test_the_runtime_folder_is_private_short_and_gone_afterwards(lock: InstanceLock) -> None:
    with runtime_folder(lock) as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(str(folder / "engine.sock")) < 100
    assert not folder.exists()


def test_nobody_can_be_in_the_runtime_folder_before_us(lock: InstanceLock, tmp_path: Path) -> None:
    """Who comes second reads its name in the lock's file, which others cannot read; it is never the same."""
    names = set()
    for _ in range(2):
        with runtime_folder(lock) as folder:
            names.add(folder.name)
            with pytest.raises(AlreadyServed) as second:
                InstanceLock(tmp_path / "state.db").acquire()
            assert second.value.folder == folder
    assert len(names) == 2
    assert stat.S_IMODE((tmp_path / "state.db.lock").stat().st_mode) == 0o600


def test_the_runtime_folder_of_a_killed_holder_is_removed_by_the_next_one(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from memproxy.serve.instance import InstanceLock, runtime_folder;"
        "lock = InstanceLock(pathlib.Path(sys.argv[1])); lock.acquire(); made = runtime_folder(lock);"
        "print(made.__enter__(), flush=True); os._exit(9)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "state.db")]
    left = Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip())
    assert (left / "metrics").is_dir()
    lock = InstanceLock(tmp_path / "state.db")
    lock.acquire()
    assert not left.exists()
    lock.release()


@pytest.mark.parametrize("kind", ["link", "open to others", "of another name"])
def test_a_folder_that_is_not_ours_is_neither_used_nor_removed(kind: str, tmp_path: Path) -> None:
    named = tmp_path / ("mine" if kind == "of another name" else "memproxy-x")
    real = tmp_path / "real" if kind == "link" else named
    real.mkdir(mode=0o755 if kind == "open to others" else 0o700)
    if kind == "link":
        named.symlink_to(real)
    (real / "precious").touch()
    (tmp_path / "state.db.lock").write_text(f"pid 1 at nowhere\n{named}\n", "utf-8")
    lock = InstanceLock(tmp_path / "state.db")
    lock.acquire()
    assert (real / "precious").exists()
    lock.release()


def test_a_long_temporary_folder_does_not_make_the_sockets_path_too_long(
    lock: InstanceLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("deep" * 30)
    long.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with runtime_folder(lock) as folder:
        assert len(str(folder / "engine.sock")) < 100


@pytest.mark.usefixtures("hangup_not_ignored")
def test_a_hangup_is_heard_unless_it_is_ignored_as_nohup_has_it() -> None:
    assert hears_hangups()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert not hears_hangups()
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_only_who_asks_again_with_another_signal_than_a_hangup_gets_it_at_once(tmp_path: Path) -> None:
    """The second hangup of a terminal that closes may be there before the first is answered."""
    settings = Settings(upstream=UpstreamSettings(base_url="http://127.0.0.1:9/v1"))
    launch = Launch(settings=reveal(settings), home=str(tmp_path), secret="", engine_socket=str(tmp_path / "e.sock"))
    supervisor = Supervisor(settings, launch, {}, lambda: settings)
    children = supervisor._children
    supervisor._on_signal(signal.SIGHUP)
    supervisor._on_signal(signal.SIGHUP)
    assert [child._ended.is_set() for child in children] == [False] * 3
    supervisor._on_signal(signal.SIGTERM)
    assert [child._ended.is_set() for child in children] == [True] * 3


def test_an_address_of_ipv6_may_have_brackets_and_is_shown_with_them() -> None:
    assert [ServerSettings(host=host).url_host for host in ("::1", "[::1]", "127.0.0.1")] == [
        "[::1]",
        "[::1]",
        "127.0.0.1",
    ]
    if socket.has_ipv6:
        with bind("[::1]", 0) as listening:
            assert listening.getsockname()[0] == "::1"


def test_a_line_of_json_says_which_process_wrote_it() -> None:
    record = logging.LogRecord("memproxy.x", logging.INFO, "", 1, "said %s", ("this",), None)
    line = json.loads(JsonFormatter("engine").format(record))
    assert (line["process"], line["message"], line["level"]) == ("engine", "said this", "info")


def test_settings_survive_the_handover_keys_included() -> None:
    settings = Settings.model_validate(
        {
            "upstream": {"api_key": "sk-secret"},
            "models": {"extract": {"api_key": "sk-other", "model": "m"}},
            "store": {"path": "/somewhere"},
            "auth": {"tenants": {"abc": "acme"}},
        }
    )
    handed = Settings.model_validate(reveal(settings))
    assert handed == settings
    assert handed.upstream.api_key is not None
    assert handed.upstream.api_key.get_secret_value() == "sk-secret"


def test_a_line_of_json_has_the_fields_of_its_record() -> None:
    record = logging.makeLogRecord({"name": "memproxy.x", "msg": "request", "fields": {"status": 200, "reason": None}})
    line = json.loads(JsonFormatter("relay").format(record))
    assert (line["status"], line["reason"], line["message"]) == (200, None, "request")


def test_what_happens_often_is_told_first_and_then_seldom_with_how_often() -> None:
    clock = iter([0.0, 1.0, 59.0, 60.0, 61.0, 500.0])
    limit = LogLimit(60.0, lambda: next(clock))
    assert [limit.due("timeout") for _ in range(6)] == [1, 0, 0, 3, 0, 2]


def test_each_cause_is_told_for_itself() -> None:
    limit = LogLimit(60.0, lambda: 0.0)
    assert [limit.due(cause) for cause in ("timeout", "store", "timeout", "store")] == [1, 1, 0, 0]


def test_libraries_are_not_heard_below_a_warning() -> None:
    setup("debug", "text", "relay", io.StringIO())
    assert logging.getLogger("memproxy.relay").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("filelock").isEnabledFor(logging.INFO)
    assert logging.getLogger("filelock").isEnabledFor(logging.WARNING)
