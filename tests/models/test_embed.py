import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from memproxy.errors import EmbedderUnavailable
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.embed_remote import OpenAIEmbedder
from memproxy.models.embedding import Batcher, Encoder, NoEmbedder
from memproxy.models.encoder import load_fastembed
from memproxy.ports import Question
from memproxy.settings import EmbeddingSettings
from memproxy.tasks import TaskOwner
from tests.support.model import of_model, until_ready
from tests.support.shared import MODEL_PATH
from tests.support.waiting import LONGEST_S, eventually

SETTINGS = EmbeddingSettings()


class Model:
    """A model of two dimensions that counts its calls and can be held."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.free = threading.Event()
        self.free.set()
        self.busy = threading.Event()

    def load(self, _settings: EmbeddingSettings, _cache: Path) -> tuple[Encoder, int]:
        return self.encode, 2

    def encode(self, texts: Sequence[str]) -> list[Question]:
        self.calls.append(list(texts))
        self.busy.set()
        assert self.free.wait(LONGEST_S)
        return [Question(vector=[1.0, 0.0]) for _ in texts]


@asynccontextmanager
async def loaded(model: Model, settings: EmbeddingSettings = SETTINGS) -> AsyncIterator[FastembedEmbedder]:
    embedder = FastembedEmbedder(settings, Path("unused"), load=model.load)
    await embedder.start()
    await until_ready(embedder)
    try:
        yield embedder
    finally:
        model.free.set()
        await embedder.close()


Load = Callable[[EmbeddingSettings, Path], tuple[Encoder, int]]


def failing(error: Exception) -> Load:
    """What loads no model, and says why."""

    def load(_settings: EmbeddingSettings, _cache: Path) -> tuple[Encoder, int]:
        raise error

    return load


async def test_the_start_does_not_wait_for_the_model_and_recall_goes_on_by_words() -> None:
    may_load = threading.Event()

    def slow(_settings: EmbeddingSettings, _cache: Path) -> tuple[Encoder, int]:
        assert may_load.wait(LONGEST_S)
        return Model().encode, 2

    embedder = FastembedEmbedder(SETTINGS, Path("unused"), load=slow)
    await embedder.start()
    assert embedder.state == "loading"
    with pytest.raises(EmbedderUnavailable, match="loading"):
        await embedder.embed_question("hello")
    may_load.set()
    await until_ready(embedder)
    assert embedder.dimension == 2
    await embedder.close()


def test_the_process_ends_although_a_download_does_not() -> None:
    script = """
import asyncio, threading
from pathlib import Path
from memproxy.models.embed import FastembedEmbedder
from memproxy.settings import EmbeddingSettings

async def run():
    began = threading.Event()
    embedder = FastembedEmbedder(
        EmbeddingSettings(), Path("unused"), lambda *_: (began.set(), threading.Event().wait()), close_s=0.01
    )
    await embedder.start()
    await asyncio.to_thread(began.wait)
    await embedder.close()

asyncio.run(run())
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0


async def test_a_model_that_cannot_be_had_says_why_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    no_network = EmbedderUnavailable("no network; set embedding.model_path")
    embedder = FastembedEmbedder(SETTINGS, Path("unused"), load=failing(no_network))
    assert not await embedder._try_load(logged=False)
    assert not await embedder._try_load(logged=True)
    assert embedder.state == "unavailable: no network; set embedding.model_path"
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    with pytest.raises(EmbedderUnavailable, match=r"set embedding\.model_path"):
        await embedder.embed_passages(["hello"])
    await embedder.close()


async def test_a_failed_load_is_tried_again() -> None:
    tries = []

    def second_time(_settings: EmbeddingSettings, _cache: Path) -> tuple[Encoder, int]:
        tries.append(1)
        if len(tries) == 1:
            raise EmbedderUnavailable("not yet")
        return Model().encode, 2

    embedder = FastembedEmbedder(SETTINGS, Path("unused"), load=second_time, retry_s=0.0)
    await embedder.start()
    await eventually(lambda: embedder.state == "ready", what="it is loaded")
    await embedder.close()


@pytest.mark.parametrize(
    ("settings", "load", "why"),
    [
        (SETTINGS, failing(RuntimeError("bad protobuf")), "bad protobuf"),
        (EmbeddingSettings(dimension=768), Model().load, "embedding.dimension: 2"),
    ],
)
async def test_an_unexpected_failure_to_load_and_another_dimension_are_told(
    settings: EmbeddingSettings, load: Load, why: str
) -> None:
    embedder = FastembedEmbedder(settings, Path("unused"), load=load)
    assert not await embedder._try_load(logged=False)
    assert why in embedder.state
    await embedder.close()


async def test_a_query_is_embedded_once() -> None:
    model = Model()
    async with loaded(model) as embedder:
        for _ in range(2):
            assert (await embedder.embed_question("hello")).vector == [1.0, 0.0]
    assert model.calls == [["hello"]]


async def test_queries_that_wait_together_are_embedded_together() -> None:
    model = Model()
    model.free.clear()
    async with loaded(model) as embedder:
        first = asyncio.create_task(embedder.embed_question("first"))  # noqa: TID251 - the test awaits it
        await asyncio.to_thread(model.busy.wait, LONGEST_S)
        others = [asyncio.create_task(embedder.embed_question(text)) for text in ("a", "b", "a")]  # noqa: TID251
        await asyncio.sleep(0)
        model.free.set()
        await asyncio.gather(first, *others)
    assert model.calls == [["first"], ["a", "b"]]


async def test_who_stops_waiting_does_not_disturb_the_others() -> None:
    model = Model()
    model.free.clear()
    async with loaded(model) as embedder:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(embedder.embed_question("gone"), 0.01)
        waiting = asyncio.create_task(embedder.embed_question("here"))  # noqa: TID251 - the test awaits it
        await asyncio.sleep(0)
        model.free.set()
        assert (await waiting).vector == [1.0, 0.0]


async def test_a_long_text_has_a_vector_for_each_part() -> None:
    async with loaded(Model()) as embedder:
        made = await embedder.embed_passages(["short", "A sentence of seven words is this. " * 100, ""])
    assert [len(one.parts) for one in made][::2] == [1, 1]
    assert 3 <= len(made[1].parts) <= 32


async def test_what_was_not_asked_for_longest_is_embedded_anew() -> None:
    asked: list[str] = []

    async def encode(texts: Sequence[str]) -> list[Question]:
        asked.extend(texts)
        return [Question(vector=[float(ord(text))] * 100) for text in texts]

    queries = Batcher(TaskOwner("test"), encode, most_bytes=9_000)
    for text in "abacacb":
        assert (await queries.submit(text)).vector[0] == ord(text)
    assert asked == list("abcb")


@of_model
async def test_the_real_model_is_loaded_from_a_folder(tmp_path: Path) -> None:
    embedder = FastembedEmbedder(EmbeddingSettings(model_path=MODEL_PATH), tmp_path)
    await embedder.start()
    await until_ready(embedder)
    assert embedder.dimension == 384
    query = (await embedder.embed_question("What's my budget for the trip?")).vector
    fits, other = await embedder.embed_passages(
        ["User's budget for the Hawaii vacation is $10,000", "User's dog is named Biscuit"]
    )
    cosine = sum(a * b for a, b in zip(query, fits.parts[0], strict=True))
    assert 0.5 < cosine < 0.65
    assert sum(a * b for a, b in zip(query, other.parts[0], strict=True)) < 0.2
    await embedder.close()


@of_model
def test_a_folder_of_a_model_that_fastembed_does_not_know_is_loaded_too(tmp_path: Path) -> None:
    settings = EmbeddingSettings(model="example/own-model", model_path=MODEL_PATH, dimension=384)
    encode, dimension = load_fastembed(settings, tmp_path)
    assert dimension == len(encode(["hello"])[0].vector) == 384


def test_a_folder_without_a_model_says_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx"):
        load_fastembed(EmbeddingSettings(model_path=tmp_path), tmp_path)


class Service:
    """An embeddings API on a real socket: answers these vectors (last one first) with this status."""

    def __init__(self, *vectors: Sequence[float], status: int = 200, body: bytes | None = None) -> None:
        """``body`` is answered in place of the vectors."""
        self.vectors = vectors
        self.status = status
        self.body = body
        self.hangs = False
        self.fails_first: list[int] = []
        self.inputs: list[list[str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.inputs.append((await request.json())["input"])
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails_first:
            return web.Response(status=self.fails_first.pop(), headers={"retry-after": "0"})
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/json")
        rows = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(self.vectors)]
        return web.json_response({"object": "list", "model": "m", "data": rows[::-1]})

    @asynccontextmanager
    async def embedder(self, dimension: int | None = None, *, timeout_s: float = 10.0) -> AsyncIterator[OpenAIEmbedder]:
        app = web.Application()
        app.router.add_post("/v1/embeddings", self.answer)
        async with TestServer(app) as server:
            settings = EmbeddingSettings.model_validate(
                {"provider": "openai", "model": "m", "api_key": "sk-secret", "dimension": dimension}
                | {"base_url": str(server.make_url("/v1"))}
            )
            made = OpenAIEmbedder(settings, timeout_s=timeout_s)
            try:
                yield made
            finally:
                await made.close()


async def test_a_remote_model_answers_unit_vectors_in_the_order_asked() -> None:
    service = Service([3, 4], [0, 2])
    async with service.embedder() as embedder:
        made = await embedder.embed_passages(["a", ""])
        assert [one.parts for one in made] == [[pytest.approx([0.6, 0.8])], [[0.0, 1.0]]]
        assert (embedder.dimension, embedder.state, embedder.name) == (2, "ready", "openai:m")
    assert service.inputs == [["a", " "]]


async def test_a_remote_query_is_embedded_once() -> None:
    service = Service([3, 4])
    async with service.embedder() as embedder:
        assert await embedder.embed_question("a") is await embedder.embed_question("a")
    assert len(service.inputs) == 1


HOST, DIMENSION = r"127\.0\.0\.1", r"embedding\.dimension"


@pytest.mark.parametrize(
    ("service", "why"),
    [
        *((Service(status=status), HOST) for status in (401, 404)),
        *((Service(body=body), HOST) for body in (b"\x00<html>", b"[]", b'{"data": ["no"]}')),
        (Service(body=b'{"data": [{"index": 0, "embedding": "AAAA"}]}'), HOST),
        *((Service(*vectors), DIMENSION) for vectors in ([[3, 4]], [], [[1, 2, 3], [1, 2, 3]])),
    ],
)
async def test_a_remote_model_without_the_right_answer_is_unavailable_and_says_why_but_no_key(
    service: Service, why: str
) -> None:
    async with service.embedder(dimension=3) as embedder:
        with pytest.raises(EmbedderUnavailable, match=why) as raised:
            await embedder.embed_question("a")
        assert "sk-secret" not in str(raised.value) + embedder.state
        assert embedder.state.startswith("unavailable:")


async def test_a_remote_model_that_is_down_at_the_start_does_not_stop_it() -> None:
    settings = EmbeddingSettings(provider="openai", model="m", base_url="http://127.0.0.1:9/v1")
    embedder = OpenAIEmbedder(settings)
    await embedder.start()
    await embedder.close()


async def test_a_service_that_was_away_a_moment_ago_is_not_waited_for_again() -> None:
    service = Service(status=503)
    async with service.embedder() as embedder:
        with pytest.raises(EmbedderUnavailable, match="InternalServerError"):
            await embedder.embed_question("a")
        asked = len(service.inputs)
        with pytest.raises(EmbedderUnavailable, match="a moment ago"):
            await embedder.embed_passages(["b"])
        assert len(service.inputs) == asked


async def test_a_service_that_does_not_answer_is_waited_for_once() -> None:
    service = Service([3, 4])
    service.hangs = True
    async with service.embedder(timeout_s=0.3) as embedder:
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed_passages(["a"])
        assert embedder.state.startswith("unavailable: ")
        with pytest.raises(EmbedderUnavailable, match="a moment ago"):
            await embedder.embed_passages(["b"])
        assert service.inputs in ([], [["a"]]), "asked once at the most"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_service_that_fails_once_is_asked_again_when_it_says(status: int) -> None:
    service = Service([3, 4])
    service.fails_first = [status]
    async with service.embedder() as embedder:
        (passage,) = await embedder.embed_passages(["a"])
        assert passage.parts == [pytest.approx([0.6, 0.8])]
        assert (embedder.state, service.inputs) == ("ready", [["a"], ["a"]])


async def test_no_embedder_is_off() -> None:
    embedder = NoEmbedder(384)
    assert (embedder.state, embedder.dimension, embedder.name) == ("off", 384, "none")
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_question("a")
