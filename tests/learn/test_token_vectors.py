"""A memory's token vectors are made with its other vectors, and again whenever its text changes."""

from collections.abc import Sequence
from pathlib import Path

from memproxy.core.memory import Kind
from memproxy.ports import Passage
from tests.learn.rig import ANN, Rig, WordEmbedder, fact, rig
from tests.support.waiting import eventually


class LateWords(WordEmbedder):
    """Gives token vectors too: here the text itself, so that it shows of which text they are."""

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        return [
            Passage(parts=one.parts, tokens=text.encode())
            for text, one in zip(texts, await super().embed_passages(texts), strict=True)
        ]


async def tokens(r: Rig) -> dict[str, str]:
    """By content, the text that the tokens were made of."""
    page = await r.store.point_page(ANN, limit=50)
    return {point.memory.content: point.tokens.decode() for point in page.points}


async def test_turns_and_memories_get_theirs_when_they_are_written_and_anew_when_their_text_changes(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, embedder=LateWords(), enabled=False) as r:
        await r.say("We walked Biscuit", "Along the river")
        await r.plan(upserts=[fact("f1", content="Ann has a dog")])
        found = await tokens(r)
        assert set(found) == {"We walked Biscuit", "Along the river", "Ann has a dog"}
        assert all(content in text for content, text in found.items())
        await r.plan(changes={"f1": {"importance": 0.9}})
        assert "Ann has a dog" in (await tokens(r))["Ann has a dog"]
        await r.plan(changes={"f1": {"content": "Ann has a cat"}})
        found = await tokens(r)
        assert set(found) == {"We walked Biscuit", "Along the river", "Ann has a cat"}
        assert "dog" not in found["Ann has a cat"]
        assert "cat" in found["Ann has a cat"]


async def test_they_are_filled_in_with_the_vectors_when_the_embedder_comes(tmp_path: Path) -> None:
    embedder = LateWords("loading")
    async with rig(tmp_path, embedder=embedder, enabled=False) as r:
        await r.say("We walked Biscuit")
        assert await tokens(r) == {"We walked Biscuit": ""}
        embedder.state = "ready"
        r.worker.wake()

        async def filled() -> bool:
            return "We walked Biscuit" in (await tokens(r))["We walked Biscuit"]

        await eventually(filled)
        assert {memory.kind for memory in await r.turns()} == {Kind.TURN}
