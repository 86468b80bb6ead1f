"""What every command of the command line takes, what `--tenant` means where, and how commands end."""

import asyncio
import io
import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml
from typer.testing import CliRunner

from memproxy import __version__
from memproxy.auth.modes import key_hash
from memproxy.commands import app, main, upkeep
from memproxy.core.memory import to_public
from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.home import secret
from tests.house.test_cli_transfers import quiet
from tests.house.test_cli_upkeep import contents, parked, settings
from tests.learn.rig import fact
from tests.support.proxy import memproxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("home")

CONTRACT = {
    *("serve", "demo", "check", "export", "import", "backup", "restore"),
    *("reindex", "mine", "dream", "forget", "keys", "version", "eval", "top"),
}


def run(*arguments: str, typed: str | None = None) -> Any:
    return CliRunner().invoke(app, list(arguments), input=typed)


def options() -> dict[str, set[str]]:
    """The options of every command, by the command's words."""
    found: dict[str, set[str]] = {}

    def look(words: tuple[str, ...], command: Any) -> None:
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            look((*words, name), command.get_command(None, name))
        if not hasattr(command, "list_commands"):
            found[" ".join(words)] = {name for one in command.params for name in one.opts}

    look((), typer.main.get_command(app))
    return found


def test_every_command_of_the_contract_is_there_and_takes_a_configuration_and_a_tenant() -> None:
    known = options()
    assert {words.partition(" ")[0] for words in known} >= CONTRACT
    assert {f"keys {name}" for name in ("new", "list", "revoke", "hash")} <= known.keys()
    without = {words: {"--config", "--tenant"} - names for words, names in known.items()}
    # beyond the contract's commands, an option that means nothing is none
    beyond = {"keys master": {"--config", "--tenant"}, "keys rewrap": {"--tenant"}}
    assert {words: missing for words, missing in without.items() if missing} == beyond


def levels() -> list[tuple[str, ...]]:
    commands = [tuple(words.split()) for words in options()]
    return [(), *sorted({words[:-1] for words in commands if len(words) > 1}), *commands]


def test_help_and_version_are_there_on_every_level_and_show_nothing_without_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no sentence is broken
    for words in levels():
        for option, told in (("-h", "Usage"), ("--help", "Usage"), ("--version", __version__)):
            done = run(*words, option)
            assert (done.exit_code, told in done.stdout) == (0, True), (words, option)
            assert [one for one in ("without effect", "not read", "ot built") if one in done.stdout] == [], words


def test_a_shell_completes_commands_and_options(home: Path) -> None:
    def completed(typed: str) -> list[str]:
        words = typed.split(" ")
        asks = {"_MEMPROXY_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
        return memproxy(home, extra=asks).stdout.split()

    assert completed("memproxy mem") == ["memories"]
    assert completed("memproxy dre") == ["dream"]
    assert "--user" in completed("memproxy memories list --")
    assert {"--install-completion", "--show-completion"} <= set(run("-h").stdout.split())


def test_every_command_whose_result_a_program_may_want_prints_json() -> None:
    without = {words for words, names in options().items() if "--json" not in names}
    # three run; the figures of `eval` go to a file
    assert without == {"serve", "demo", "mcp"}


def test_json_is_one_line_on_standard_output(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)

    def read(*arguments: str, ends: int = 0) -> Any:
        done = run(*arguments, "--json")
        assert (done.exit_code, done.stdout.count("\n")) == (ends, 1), done.output
        return json.loads(done.stdout)

    assert read("version") == {"version": __version__}
    made = read("keys", "new", "--tenant", "acme", "--user", "ann")
    assert made["key"].startswith(f"mpk_{made['id']}")
    (listed,) = read("keys", "list")["data"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert (listed["tenant"], listed["user"], listed["valid"]) == ("acme", "ann", True)
    assert "hash" not in listed
    assert read("keys", "revoke", made["id"]) == {"id": made["id"], "revoked": True}
    assert read("keys", "list")["data"][0]["valid"] is False
    assert read("keys", "hash", "sk-one") == {"hash": key_hash(secret(None, home), "sk-one")}
    assert read("keys", "master").keys() == {"master_key"}
    file = home / "file.jsonl"
    file.write_text('{"format":"memproxy","version":1}\n')
    assert read("import", str(file))["imported"] == 0
    assert read("prune") == {"pruned": 0, "reasons": {}, "dry_run": False}
    assert read("mine") == {"index": 0, "learn": 0, "sessions": 0, "parked": 0}
    assert read("forget", "--user", "ann", "--yes", ends=1) == {"deleted": 0}
    assert [one["action"] for one in read("audit")["data"]][:1] == ["user.erase"]
    saved = read("backup", "copy")
    assert (saved["folder"], saved["files"] > 0, saved["bytes"] > 0) == ("copy", True, True)
    assert read("restore", "copy", "--force")["restored"] == "copy"


async def test_a_check_prints_json(upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMPROXY__UPSTREAM__BASE_URL", upstream.base_url)
    monkeypatch.setenv("MEMPROXY__SERVER__PORT", "0")
    checked = await asyncio.to_thread(run, "check", "--json")
    told = json.loads(checked.stdout)
    assert (checked.exit_code, told["ok"]) == (0, True)
    states = {finding["part"]: finding["state"] for finding in told["findings"]}
    fine = dict.fromkeys(("config", "listen", "upstream", "memory", "state", "store"), "ok")
    assert states == fine | {"home": "note", "embedder": "note"}


def test_an_export_that_finds_nothing_says_so_and_ends_with_1() -> None:
    nothing = run("export", "--user", "ann", "--json")
    assert nothing.exit_code == 1
    assert '{"memories":0}' in nothing.stderr
    assert "name it by --tenant" in nothing.stderr
    file = run("export", "--user", "ann").stderr
    assert "0 memories of user 'ann' of tenant anonymous" in file


@pytest.mark.parametrize("command", [("check",), ("backup", "copy"), ("reindex",)])
def test_what_concerns_all_tenants_says_so_when_one_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(home)
    said = run(*command, "--tenant", "acme").stderr
    assert f"--tenant acme: {command[0]} concerns the whole installation" in said
    assert "whole installation" not in run(*command).stderr


def test_a_dream_tells_what_it_would_do_and_does_it(home: Path) -> None:
    said = enumerate(("Ann likes chess", "ann likes CHESS!"))
    lines = [msgspec.to_builtins(to_public(fact(f"mem_{place}", content=text))) for place, text in said]
    file = home / "ann.jsonl"
    file.write_text("".join(json.dumps({"memory": one}) + "\n" for one in lines), "utf-8")
    assert run("import", str(file)).exit_code == 0
    dry = run("dream", "--user", "ann", "--dry-run").stdout
    assert "ann: 2 of 2 entries, 1 merge" in dry
    assert "merge (same_words): Ann likes chess" in dry
    told = json.loads(run("dream", "--json").stdout)
    assert [(one["state"], one["counts"]["merge"]) for one in told["data"]] == [("done", 1)]
    assert "nothing to do" in run("dream").stdout
    assert run("dream", "--tenant", "nobodys").stdout == "Nobody has memories here.\n"


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command as the program does, which ends with 1; what it said."""

    def run_main(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["memproxy", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        return capsys.readouterr().err

    return run_main


def test_what_the_system_refuses_is_told_in_a_line(home: Path, failed: Callable[..., str]) -> None:
    said = failed("backup", str(home / ("n" * 300)))
    assert "File name too long" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("keys", "list"), "There are no proxy keys; memproxy keys new makes one."),
        (("keys", "list", "--tenant", "acme"), "There are no proxy keys of tenant acme"),
        (("audit",), "The audit log holds nothing"),
    ],
)
def test_an_empty_list_says_that_it_is_empty(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (0, "")
    assert told in done.stderr
    assert json.loads(run(*arguments, "--json").stdout) == {"data": []}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("import", "{file}"), "is empty: an export has a line at least. Export again, or name another file."),
        (("restore", "{folder}"), "Name a folder that `memproxy backup` made."),
        (("restore", "{file}"), "Name the folder that `memproxy backup` made."),
        (("backup", "{file}/within"), "Name a folder elsewhere."),
        (("move", "--to", "{folder}/none.yaml"), "--to {folder}/none.yaml: cannot be read"),
        (("top", "--url", "localhost:8484"), "must be an address that starts with http:// or https://."),
    ],
)
def test_what_cannot_be_used_is_named_with_a_remedy(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    places = {"folder": str(tmp_path / "folder"), "file": str(tmp_path / "file")}
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    done = run(*(one.format(**places) for one in arguments))
    assert isinstance(done.exception, ConfigError)
    assert told.format(**places) in done.exception.message


def test_the_hash_of_a_key_is_printed_however_the_key_is_given(home: Path) -> None:
    expected = key_hash(secret(None, home), "sk-one")
    assert run("keys", "hash", "sk-one").stdout == f"{expected}\n"
    assert run("keys", "hash", typed="sk-one\n").stdout == f"{expected}\n"
    assert run("keys", "hash", "-", typed=" sk-one").stdout == f"{expected}\n"
    named = run("keys", "hash", "sk-one", "--tenant", "acme")
    assert named.stdout == f"{expected}\n"
    assert f"{expected}: acme" in named.stderr


@pytest.mark.parametrize("nothing", [None, io.StringIO(""), io.StringIO("\n")])
def test_without_a_key_there_is_no_hash_but_a_message(
    monkeypatch: pytest.MonkeyPatch, failed: Callable[..., str], nothing: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdin", nothing)
    assert "No key was given" in failed("keys", "hash")


@pytest.mark.parametrize(
    "named", [{"tenant": ""}, {"tenant": " "}, {"user": ""}, {"project": "a\tb"}, {"name": "a\nb"}]
)
def test_a_key_is_made_for_somebody_only(named: dict[str, str]) -> None:
    arguments = [f"--{option}={name}" for option, name in ({"tenant": "acme"} | named).items()]
    made = run("keys", "new", *arguments)
    assert made.exit_code == 2
    assert f"--{next(iter(named))}" in made.stderr
    assert run("keys", "list").stdout == ""


def test_a_name_that_no_request_can_have_is_bad_usage_of_every_command_that_takes_one(home: Path) -> None:
    taking = [
        (words, option)
        for words, names in options().items()
        for option in sorted(names & {"--tenant", "--user", "--session", "--project"})
        if not words.startswith("eval")
    ]
    assert len(taking) > 20
    empty = [(words, option, "") for words, option in taking]
    others = [("export", "--user", name) for name in (" ann", "a\x00b", "n" * 257, "\udcff")]
    for words, option, name in [*empty, *others]:
        refused = run(*words.split(), f"{option}={name}")
        assert refused.exit_code == 2, (words, option)
        assert f"Invalid value for '{option}'" in refused.stderr
        assert "give a name" in refused.stderr.lower()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("option", ["--permission=read", "--permission=chat,admin", "--days=0", "--days=99999999"])
def test_a_value_that_a_keys_option_does_not_take_is_bad_usage(option: str) -> None:
    refused = run("keys", "new", "--tenant", "acme", option)
    assert refused.exit_code == 2
    assert option.partition("=")[0] in refused.stderr
    assert run("keys", "list").stdout == ""


def test_a_key_for_all_that_the_upstream_keeps_is_made_and_listed_as_such() -> None:
    assert run("keys", "new", "--tenant", "acme", "--permission=chat", "--permission=upstream:all").exit_code == 0
    assert "chat,upstream:all" in run("keys", "list").stdout
    made = run("keys", "new", "--tenant", "acme", "--permission=upstream:all", "--config-entry")
    (entry,) = yaml.safe_load(made.stderr)
    read = Settings.model_validate({"auth": {"mode": "keys", "keys": [entry]}})
    assert read.auth.keys[0].permissions == ["upstream:all"]


def test_nothing_is_forgotten_where_nobody_can_be_asked_and_nobody_said_yes() -> None:
    refused = run("forget", "--user", "ann", typed="y\n")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    done = run("forget", "--user", "ann", "--yes")
    assert (done.exit_code, "0 memories forgotten" in done.stdout) == (1, True), "it was done, and nothing was there"


def test_a_check_prints_names_as_they_are(home: Path) -> None:
    config = home / "openai:key:.yaml"  # between two colons stands what some take for a picture's name
    config.touch()
    assert f"ok   config    {config}\n" in run("check", "--config", str(config)).stdout


def test_a_check_says_that_the_port_is_taken_or_the_home_cannot_be_made(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = home / "config.yaml"
        config.write_text(f"server: {{port: {taken.getsockname()[1]}}}\nupstream: {{base_url: 'http://127.0.0.1:9'}}\n")
        checked = run("check", "--config", str(config))
    assert checked.exit_code == 1
    assert "FAIL listen    Cannot listen on" in checked.stdout
    assert "server.port" in checked.stdout
    checked = CliRunner().invoke(app, ["check", "--config", str(config)], env={"MEMPROXY_HOME": str(config)})
    assert "FAIL store     " in checked.stdout
    assert "MEMPROXY_HOME" in checked.stdout
    config.write_text("upstream: {ca_file: /nowhere.pem}")
    checked = run("check", "--config", str(config))
    assert checked.stdout.count("/nowhere.pem") == 1, "its reason is told once"
    assert "FAIL state     as config says" in checked.stdout


def test_a_check_finds_what_a_start_refuses_a_store_that_is_gone_and_a_secret_that_is_none(home: Path) -> None:
    assert run("mine").exit_code == 0
    shutil.rmtree(home / "store")
    (home / "secret").write_text("")
    checked = run("check").stdout
    assert "FAIL store     The folder" in checked
    assert "FAIL home      The secret" in checked
    assert not list((home / "store").glob("*.json")), "none is made in its place"


async def test_a_check_beside_a_server_whose_store_does_not_open_says_why(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    (tmp_path / "store").touch()
    async with running_proxy(upstream.base_url, tmp_path, memory=False) as proxy:

        async def finds_it() -> bool:
            checked = await asyncio.to_thread(memproxy, tmp_path, "check", "--config", str(proxy.config_file))
            return checked.returncode == 1 and "says how they are. degraded: The marker" in checked.stdout

        await eventually(finds_it, what="it says what stands in the way of the store")


def test_a_key_is_revoked_for_its_own_tenant_only() -> None:
    assert run("keys", "new", "--tenant", "acme").exit_code == 0
    (key_id,) = [line.split()[0] for line in run("keys", "list", "--tenant", "acme").stdout.splitlines()]
    assert run("keys", "list", "--tenant", "other").stdout == ""
    assert run("keys", "revoke", key_id, "--tenant", "other").exit_code == 1
    assert "valid" in run("keys", "list").stdout
    assert run("keys", "revoke", key_id, "--tenant", "acme").exit_code == 0
    assert "revoked" in run("keys", "list").stdout


async def test_mining_for_a_tenant_looks_at_that_tenants_rows_alone() -> None:
    await parked("acme", "acmf", "zeta")
    left = await upkeep.mine(settings(), quiet, tenant="acmf", retry_parked=True)
    assert left == upkeep.WaitingWork(index=0, learn=0, sessions=0, parked=0)
    assert await contents("semantic", "acmf")
    assert await contents("semantic", "acme") == set() == await contents("semantic", "zeta")
    assert (await upkeep.mine(settings(), quiet, tenant="zeta")).parked == 1
    assert (await upkeep.mine(settings(), quiet)).parked == 2
    assert (await upkeep.mine(settings(), quiet, tenant="nobody")).parked == 0


@pytest.mark.parametrize(
    ("embedding", "ends_with"),
    [
        ({"MODEL_PATH": "missing", "PROVIDER": "fastembed"}, 1),
        ({"PROVIDER": "openai", "BASE_URL": "http://127.0.0.1:9", "MODEL": "m", "DIMENSION": "8"}, 1),
        ({"PROVIDER": "none"}, 0),
    ],
)
async def test_a_check_fails_for_an_embedder_that_was_configured_and_does_not_load(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, embedding: dict[str, str], ends_with: int
) -> None:
    monkeypatch.setenv("MEMPROXY__UPSTREAM__BASE_URL", upstream.base_url)
    for name, value in embedding.items():
        monkeypatch.setenv(f"MEMPROXY__EMBEDDING__{name}", value)
    checked = await asyncio.to_thread(run, "check")
    assert checked.exit_code == ends_with, checked.output
    line = next(line for line in checked.stdout.splitlines() if line[5:].startswith("embedder"))
    assert line.startswith("FAIL" if ends_with else "note")


async def test_a_check_asks_the_upstream_the_way_requests_go_and_shows_no_password(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the environment's proxy answers for its address."""
    monkeypatch.setenv("http_proxy", upstream.base_url.removesuffix("/v1"))
    monkeypatch.setenv("MEMPROXY__UPSTREAM__BASE_URL", "http://name:sk-secret@model.invalid/v1")

    async def told() -> str:
        checked = await asyncio.to_thread(run, "check")
        assert "sk-secret" not in checked.output
        lines: list[str] = checked.stdout.splitlines()
        return next(line for line in lines if line[5:].startswith("upstream"))

    assert (await told()).startswith("ok   upstream  http://model.invalid/v1 answers")
    monkeypatch.setenv("MEMPROXY__UPSTREAM__ENVIRONMENT_PROXY", "false")
    assert (await told()).startswith("FAIL upstream  http://model.invalid/v1 does not answer")


def test_a_tenant_that_differs_from_another_ones_name_in_capitals_alone_is_told() -> None:
    assert "another one" not in run("keys", "new", "--tenant", "company").stderr
    told = run("keys", "new", "--tenant", "Company").stderr
    assert "Tenant 'company' has keys, too: 'Company' is another one" in told
