"""The seams: what the rest of memproxy expects of stores, models and clocks. Small Protocols, no implementation.

Anything concrete is chosen in ``wiring`` alone. Values that cross a seam are the structs defined here and in ``core``.
"""

from memproxy.ports.access import AccessState, Charge, GivenAnswer, Spent
from memproxy.ports.memory import (
    Candidate,
    HeldStore,
    HybridQuery,
    MemoryFilter,
    MemoryStore,
    Page,
    Point,
    PointPage,
    SparseVector,
)
from memproxy.ports.models import (
    ChatModel,
    Clock,
    Credential,
    Embedder,
    LexicalEncoder,
    ModelReply,
    Reranker,
    RoleModel,
)
from memproxy.ports.rebuild import Kept, Rebuild, RebuildableStore, Scanned
from memproxy.ports.state import (
    BlockLine,
    JournalEntry,
    JournalKind,
    JournalRow,
    KnownSession,
    PalacePlace,
    ParkedRow,
    Placed,
    Recovered,
    SessionBlocks,
    SessionProgress,
    SlotChange,
    StateStore,
)

__all__ = [
    "AccessState",
    "BlockLine",
    "Candidate",
    "Charge",
    "ChatModel",
    "Clock",
    "Credential",
    "Embedder",
    "GivenAnswer",
    "HeldStore",
    "HybridQuery",
    "JournalEntry",
    "JournalKind",
    "JournalRow",
    "Kept",
    "KnownSession",
    "LexicalEncoder",
    "MemoryFilter",
    "MemoryStore",
    "ModelReply",
    "Page",
    "PalacePlace",
    "ParkedRow",
    "Placed",
    "Point",
    "PointPage",
    "Rebuild",
    "RebuildableStore",
    "Recovered",
    "Reranker",
    "RoleModel",
    "Scanned",
    "SessionBlocks",
    "SessionProgress",
    "SlotChange",
    "SparseVector",
    "Spent",
    "StateStore",
]
