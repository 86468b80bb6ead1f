"""After a user is erased, nothing of it is left in any file."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from memproxy.ports import Passage
from tests.learn.rig import DIMENSION, WordEmbedder
from tests.support.engine import make_engine, serve_engine

pytestmark = pytest.mark.asyncio

SECRETS = ("xylophonist", "quokkaville", "zzuser", "zzsession")


async def test_no_byte_of_an_erased_user_is_in_a_file_of_the_state_or_the_store(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        await api.say("zzsession", "I am a xylophonist from Quokkaville", user_id="zzuser")
        await api.store("Quokkaville is nice", user_id="zzuser", subject="Quokkaville", session_id="zzsession")
        await api.store("kept", user_id="other")
        assert await api.delete("users/zzuser") == 2
        state, scope = api.engine.backends().state, Scope(tenant=api.tenant, user="zzuser")
        assert await state.outcomes(scope, session=None, limit=10) == []
        assert await state.palace_names(scope) == {}
        assert left_in(tmp_path / "state.db") == set()
    # that this user was erased is in the audit log, by id
    assert left_in(*tmp_path.rglob("*")) <= {"zzuser"}


async def test_a_blank_name_in_the_path_erases_nobody(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        await api.store("kept, of the user that a caller without a name is")
        for blank in ("%20", "%E2%80%A8"):
            assert await api.status("DELETE", f"users/{blank}") == 400
        assert len(await api.page()) == 1


class HangingEmbedder(WordEmbedder):
    """What the user tells is never done, and who gives up on it still waits for ``let_go``."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.given_up, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        if not any("xylophonist" in text for text in texts):  # recall's own examples
            return await super().embed_passages(texts)
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()
            await self.let_go.wait()
        raise AssertionError


async def test_an_erasure_does_not_wait_for_the_vectors_of_what_was_told_before_it(tmp_path: Path) -> None:
    embedder = HangingEmbedder()
    async with serve_engine(make_engine(tmp_path, embedder=embedder, dimension=DIMENSION)) as api:
        async with asyncio.TaskGroup() as calls:
            told = calls.create_task(api.say("s1", "I am a xylophonist", user_id="zzuser"))
            await embedder.asked.wait()
            gone = calls.create_task(api.delete("users/zzuser"))
            await embedder.given_up.wait()
            with api.engine.parts.worker.erasing((api.tenant, "zzuser")):
                embedder.let_go.set()  # a second erasure that comes just then fails at nothing
        assert (gone.result(), len(told.result())) == (1, 1)
        assert left_in(tmp_path / "state.db") == set()


def left_in(*files: Path) -> set[str]:
    read = b"".join(path.read_bytes().lower() for path in files if path.is_file())
    return {secret for secret in SECRETS if secret.encode() in read}
