"""Commands that take memories along and keep them safe: through the running server, else on the store itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.commands import app, export_import
from memproxy.commands.installation import installation
from memproxy.commands.options import Show
from memproxy.errors import ConfigError
from tests.house.test_cli_upkeep import served, settings, told


def quiet(done: int, total: int) -> None:
    """Shows nothing."""


async def texts(user: str = "ann") -> set[str]:
    async with installation(settings(enabled=False)) as here:
        page = await here.call("GET", "/v1/memory", user=user)
    return {memory["content"] for memory in page["data"]}


async def taken_over(path: Path, show: Show = quiet, user: str | None = None) -> export_import.ImportResult:
    return await export_import.import_file(
        settings(), path, show, file_format="memproxy", tenant=None, user=user, dry_run=False
    )


async def filled() -> None:
    await told(("ann", "s1", "I moved to Porto"), ("ann", "s2", "Biscuit is a beagle"), ("bob", "s1", "I like tea"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


async def test_what_export_prints_import_takes_over_in_another_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled()
    with (tmp_path / "ann.jsonl").open("wb") as out:
        assert await export_import.export(settings(), out, quiet, tenant=None, user="ann", vectors=False) == 2
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path / "other"))
    taken = await taken_over(tmp_path / "ann.jsonl")
    assert (taken.imported, taken.rejected) == (2, 0)
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}
    assert await texts("bob") == set()


async def test_export_and_import_work_through_a_running_server(home: Path, tmp_path: Path) -> None:
    async with served(home):
        await filled()
        with (tmp_path / "ann.jsonl").open("wb") as out:
            done = await export_import.export(settings(), out, quiet, tenant=None, user="ann", vectors=True)
        taken = await taken_over(tmp_path / "ann.jsonl", user="eve")
        assert taken.imported == done
        assert await texts("eve") >= {"I moved to Porto", "Biscuit is a beagle"}


async def test_a_large_export_comes_and_goes_in_pieces(home: Path, tmp_path: Path) -> None:
    fact = {"content": "a fact of some length " * 4_000, "user_id": "ann"}
    memories = [{"memory": {"id": f"m{n}", "created_at": 1_700_000_000 + n, **fact}} for n in range(300)]
    path, copy = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in memories), "utf-8")
    told_of: list[tuple[int, int]] = []
    assert (await taken_over(path, lambda done, total: told_of.append((done, total)))).imported == 300
    assert len(told_of) == 2
    assert told_of[-1][0] == told_of[-1][1] == path.stat().st_size
    with copy.open("wb") as out:
        assert await export_import.export(settings(), out, quiet, tenant=None, user="ann", vectors=False) == 300
    assert (await taken_over(copy)).unchanged == 300


def test_import_tells_wrong_lines_and_ends_with_1(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = {"memory": {"id": "m1", "content": "User likes tea", "created_at": 5, "user_id": "ann"}}
    path.write_text(json.dumps(good) + "\n" + json.dumps({"memory": {"id": ""}}) + "\n", "utf-8")
    result = run("import", str(path))
    assert result.exit_code == 1
    assert "line 2: " in result.output
    assert "1 memories imported" in result.output
    assert run("import", str(path), "--dry-run").exit_code == 1


def test_import_reads_other_products_files(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    said = {"id": "a", "memory": "Likes tea", "user_id": "ann"}
    path.write_text(json.dumps({"results": [said, {"id": "b", "user_id": "ann"}]}), "utf-8")
    done = run("import", str(path), "--format", "mem0")
    assert (done.exit_code, "1 memories imported" in done.output) == (1, True)
    assert "entry 2: content: is required" in done.stderr
    exported = run("export", "--user", "ann")
    assert exported.exit_code == 0
    assert "Likes tea" in exported.stdout


def test_a_chatgpt_export_without_ids_changes_nothing_the_second_time(home: Path, tmp_path: Path) -> None:
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["My parrot is Coco"]}}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"current_node": "a", "mapping": {"a": {"message": message}}}]), "utf-8")
    exports = []
    for _ in range(2):
        assert run("import", str(path), "--format", "chatgpt", "--user", "ann").exit_code == 0
        exports.append(run("export", "--user", "ann").stdout.splitlines())
    assert sum("My parrot is Coco" in line for line in exports[0]) == 1
    assert exports[0] == exports[1]


@pytest.mark.parametrize("text", ['{"results": []}', "[" * 5000])
@pytest.mark.parametrize("arguments", [["--format", "zep"], ["--format", "chatgpt"], []])
def test_a_file_of_another_format_is_refused_with_a_remedy(
    home: Path, tmp_path: Path, arguments: list[str], text: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    refused = run("import", str(path), *arguments)
    assert isinstance(refused.exception, ConfigError)
    assert "format" in str(refused.exception)


async def test_a_header_that_cannot_be_read_is_told_once_under_its_line(home: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"format": "memproxy", "version": 99}]
    rows += [{"memory": {"id": f"m{n}", "content": f"fact {n}", "created_at": 1_700_000_000}} for n in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in rows), "utf-8")
    taken = await taken_over(tmp_path / "in.jsonl", user="ann")
    ((number, message),) = taken.errors
    assert number == 1
    assert "version 99" in message
    counts = {"imported": 2, "replaced": 0, "unchanged": 0, "turns": 0, "rejected": 1}
    taken.add({**counts, "errors": [{"line": 1, "message": message}], "notes": []}, [1, 5, 6], queued=False)
    assert (taken.imported, taken.rejected, len(taken.errors)) == (5, 1, 1), "it goes with every piece of a file"


@pytest.mark.usefixtures("home")
def test_an_entry_of_another_product_that_names_nobody_says_which_and_how_to_name_somebody(tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text('[{"id": "a", "memory": "Likes tea", "user_id": "ann"}, {"id": "b", "memory": "Has a dog"}]')
    done = run("import", str(path), "--format", "mem0")
    assert done.exit_code == 1
    assert "entry 2: No user is named" in done.stderr
    assert "--user" in done.stderr
