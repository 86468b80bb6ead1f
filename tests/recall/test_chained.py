"""Questions of conversations that the upstream keeps."""

from pathlib import Path

import msgspec

from memproxy.core.memory import Trust
from tests.recall.making import Bench, asking, bench, conversation, fact, turn


async def test_a_vague_question_of_a_chain_is_completed_by_what_was_captured(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await said_before(it)
        vague = asking("How much?")
        alone = await it.recall.recall(vague)
        chained = await it.recall.recall(msgspec.structs.replace(vague, chained=True))
    assert alone.query == "How much?"
    assert {"hawaii", "budget"} <= set(chained.query.lower().split())


async def test_a_clear_question_of_a_chain_is_searched_as_it_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await said_before(it)
        clear = "What is the name of my daughter's school?"
        answer = await it.recall.recall(msgspec.structs.replace(asking(clear), chained=True))
    assert answer.query == clear


async def said_before(it: Bench) -> None:
    talk = conversation("I plan my Hawaii vacation.", "Lovely!", "What about the budget for it?")
    talk[1] = msgspec.structs.replace(talk[1], trust=Trust.ASSISTANT)
    other = turn("My cello lesson is on Tuesday.", session_id="s2")
    await it.put(*talk, other, fact("User's budget for the Hawaii vacation is $10,000"))
