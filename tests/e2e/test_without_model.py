"""An installation without the extra ``fastembed``: the packages of the local model are not there."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.e2e.talk import chat, found
from tests.support.proxy import Proxy, memproxy, running_proxy
from tests.support.upstream import scripted_upstream
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
REMEDY = 'pip install "PATH[fastembed]"'
FASTEMBED = {"embedding": {"provider": "fastembed"}}

HIDING = '''
import sys

class Hiding:
    """Answers as if these were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
'''


def of_the_extra() -> set[str]:
    """What the extra brings, and what comes with that and with nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {Requirement(line).name for line in project["optional-dependencies"]["fastembed"]}
    assert not own & {Requirement(line).name for line in project["dependencies"]}
    return own | {"tokenizers", "huggingface_hub", "PIL", "mmh3", "py_rust_stemmers"}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that has no package of the extra."""
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDING.format(names=repr(of_the_extra())), encoding="utf-8")
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


async def names_the_remedy(proxy: Proxy) -> bool:
    _, told = await proxy.readiness()
    return REMEDY in str(told["parts"]["embedder"])


async def test_the_proxy_remembers_by_words_and_says_what_to_install(tmp_path: Path, bare: dict[str, str]) -> None:
    async with (
        scripted_upstream() as model,
        running_proxy(model.base_url, tmp_path / "home", FASTEMBED, environment=bare) as proxy,
    ):
        await eventually(lambda: names_the_remedy(proxy), what="/readyz names the remedy")
        async with proxy.client() as client:
            text = "My budget for the Hawaii vacation is $10,000."
            assert (await chat(client, text)).status == 200
            await eventually(lambda: found(proxy, text), what="it is searchable")
            answer = await chat(client, "What is my budget for the Hawaii vacation?")
        assert (answer.status, answer.recall) == (200, "injected")
        lines = [line for line in proxy.log.splitlines() if REMEDY in line]
        assert len(lines) == 1, lines
        assert "recall is lexical only for now" in lines[0]


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["eval", "--help"], ["keys", "list"], ["check"]])
def test_commands_work_without_the_extra(tmp_path: Path, bare: dict[str, str], arguments: list[str]) -> None:
    offline = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = memproxy(tmp_path / "home", *arguments, extra=bare | offline)
    assert "Traceback" not in done.stderr + done.stdout
    if arguments == ["check"]:
        line = next(line for line in done.stdout.splitlines() if line[5:].startswith("embedder"))
        assert line.startswith("note"), line
        assert REMEDY in line
    else:
        assert done.returncode == 0, done.stderr
