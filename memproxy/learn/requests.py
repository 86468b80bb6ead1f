"""Messages that only ask to forget something: they are hidden, because they name it."""

from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.chain import RETRACTED_BY
from memproxy.core.memory import Memory, Trust
from memproxy.core.retract import only_asks
from memproxy.learn.candidates import Grounded, Intent
from memproxy.learn.known import Known


def hide_requests(known: Known, found: Sequence[Grounded]) -> None:
    """Add to the plan that the user's turns of which nothing but requests to forget was read are not recalled; they
    are listed, and read again as any turn.
    """
    by_turn: dict[tuple[str | None, str], list[Grounded]] = {}
    for one in found:
        by_turn.setdefault((one.turn.session_id, one.turn.id), []).append(one)
    for read in by_turn.values():
        turn = read[0].turn
        if _is_shown(known, turn) and _only_asks(turn, read):
            noted = known.marked(turn).get("metadata", turn.metadata)
            known.mark(turn, {"active": False, "metadata": noted | {RETRACTED_BY: turn.id}})


def _is_shown(known: Known, turn: Memory) -> bool:
    return turn.trust is Trust.USER and turn.active and known.marked(turn).get("active") is not False


def _only_asks(turn: Memory, read: Sequence[Grounded]) -> bool:
    quotes = [quote for one in read for quote in one.candidate.evidence]
    return all(one.candidate.intent is Intent.FORGET for one in read) and only_asks(strip_blocks(turn.content), quotes)
