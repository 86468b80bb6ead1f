"""What of the state's rows is encrypted, and how it is read again: slots, receipts, outcomes and injected lines."""

import logging
from collections.abc import Sequence

import msgspec

from memproxy.core.receipt import Outcome, ReceiptPart
from memproxy.metrics import metrics
from memproxy.ports import BlockLine, SlotChange
from memproxy.stores.sealing import DataKey, Unreadable
from memproxy.stores.sqlite_sealing import slot_name

log = logging.getLogger(__name__)


def sealed_slot(key: DataKey, change: SlotChange) -> SlotChange:
    """The change with its slot under a name."""
    return msgspec.structs.replace(change, slot=slot_name(key, change.slot))


def opened(key: DataKey | None, sealed: bytes, what: str) -> bytes:
    """Bytes in the clear; nothing without a key, or where they cannot be read, which is counted and logged."""
    try:
        return key.open(sealed, what) if key is not None else b""
    except Unreadable as error:
        _note_unreadable(what, error)
        return b""


def plain_name(key: DataKey, name: str) -> str:
    """A name in the clear; empty where it cannot be read, as `opened`."""
    try:
        return key.plain_name(name)
    except Unreadable as error:
        _note_unreadable("name", error)
        return ""


def opened_text(key: DataKey | None, sealed: str, what: str) -> str:
    """As `opened`, of a text."""
    try:
        return key.open_text(sealed, what) if key is not None else ""
    except Unreadable as error:
        _note_unreadable(what, error)
        return ""


def _note_unreadable(what: str, error: Unreadable) -> None:
    metrics().internal_errors.labels(where="state.sealed").inc()
    log.error("an encrypted %s cannot be read and counts as empty: %s", what, error)


def sealed_part(key: DataKey, part: ReceiptPart) -> ReceiptPart:
    """The part with the recall's query encrypted."""
    if part.recalled is None or not part.recalled.query:
        return part
    query = key.seal_text(part.recalled.query, "receipt.query")
    return msgspec.structs.replace(part, recalled=msgspec.structs.replace(part.recalled, query=query))


def sealed_outcome(key: DataKey, outcome: Outcome) -> Outcome:
    """The outcome with its content encrypted."""
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=key.seal_text(outcome.content, "outcome.content"))


def opened_outcome(key: DataKey | None, outcome: Outcome) -> Outcome:
    """The outcome with its content in the clear."""
    if outcome.content is None:
        return outcome
    return msgspec.structs.replace(outcome, content=opened_text(key, outcome.content, "outcome.content"))


def opened_lines(key: DataKey | None, lines: Sequence[BlockLine]) -> list[BlockLine]:
    """The lines in the clear; none when one of them cannot be read, for half a block is no block."""
    opened = [msgspec.structs.replace(line, text=opened_text(key, line.text, "block.line")) for line in lines]
    whole = all(line.text or not sealed.text for line, sealed in zip(opened, lines, strict=True))
    return opened if whole else []
