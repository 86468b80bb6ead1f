"""Sections about what a request borrows from memory: gate, rewriting, recall, injection."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from memproxy.settings.base import Positive, Seconds, Section, Unit

GateCategory = Literal["greeting", "smalltalk", "tool", "fact"]
RecipeName = Literal["default", "late", "dense", "rrf", "average", "bm25", "vectors"]
StageName = Literal[
    "fused",
    "dense",
    "bm25",
    "average",
    "rrf",
    "late",
    "phrases",
    "topics",
    "neighbours",
    "sessions",
    "speakers",
    "times",
    "expectations",
    "substance",
]
MATCHING_STAGES: frozenset[StageName] = frozenset({"fused", "dense", "bm25", "average", "rrf"})
KindName = Literal["semantic", "procedural", "episodic", "reflective", "turn"]


def that_rank(value: list[StageName]) -> list[StageName]:
    """``value`` itself. Raises ValueError if the stages of it cannot rank."""
    if len(set(value)) < len(value):
        raise ValueError("must name each stage once")
    if value and not MATCHING_STAGES.intersection(value):
        raise ValueError(f"must have one of the stages that search: {', '.join(sorted(MATCHING_STAGES))}")
    return value


class GateSettings(Section):
    """Which requests are not searched for."""

    enabled: bool = Field(True, description="Off: every request is searched.")
    skip: list[GateCategory] = Field(
        ["greeting", "smalltalk", "tool", "fact"],
        description="Kinds of requests that are not searched for, never with a first-person word; `fact` is, if the "
        "user's memories speak of it.",
    )


class RewriteSettings(Section):
    """How a vague query is completed before the search."""

    mode: Literal["none", "context", "llm", "hyde"] = Field(
        "context",
        description="`context`: with key terms of earlier messages; `llm`: by `models.rewrite`; `hyde`: `context`, and "
        "when nothing relevant is found, that model writes a hypothetical statement to search for.",
    )
    timeout_s: Seconds = Field(
        2.0, le=60, description="A rewriting model's own time, beside recall's deadline; after it, `context`."
    )


class TierSettings(Section):
    """Shares of a block's tokens; what one tier leaves is the others'. A tier with 0 is off: nothing of it is given."""

    stable: Unit = Field(0.3, description="Share of facts, ways of doing and reflections.")
    relevant: Unit = Field(0.5, description="Share of messages and episodes.")
    recent: Unit = Field(0.2, description="Share of messages and episodes of this session or the last 24 hours.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.stable + self.relevant + self.recent > 0:
            raise ValueError("must have one tier that is not 0; to inject nothing, set recall.max_tokens: 0")
        return self


class RecallSettings(Section):
    """What is searched and how much is used."""

    recipe: RecipeName = Field("default", description="How memories are ranked; see docs/recall.md.")
    stages: Annotated[list[StageName], AfterValidator(that_rank)] = Field(
        [], description="Stages in place of the recipe's, each once; one of the first five must be there."
    )
    limit: int = Field(8, ge=1, le=200, description="Most memories in a block.")
    similarity_threshold: Unit = Field(0.35, description="Floor of the calibrated score.")
    min_confidence: Unit = Field(0.3, description="Least confidence of a memory.")
    max_tokens: int = Field(600, ge=0, le=100_000, description="Token budget of a block.")
    deadline_ms: Positive = Field(150, le=60_000, description="Recall's deadline; past it the request goes on without.")
    kinds: list[KindName] = Field(
        ["semantic", "procedural", "episodic", "reflective", "turn"], description="Kinds that are recalled."
    )
    first_turn_facts: int = Field(
        0, ge=0, le=50, description="The user's most important facts, so many, given at a session's first turn."
    )
    tiers: TierSettings = Field(TierSettings(), description="How a block's tokens are shared.")
    rerank: Literal["none", "model"] = Field("none", description="`model`: the best 20 are read by `models.rerank`.")
    rerank_timeout_s: Seconds = Field(
        2.0, le=60, description="A reranking model's own time, beside the deadline; after it, the order without it."
    )


class InjectSettings(Section):
    """How the block is put into the request."""

    position: Literal["auto", "before_last_user", "after_system", "system"] = Field(
        "auto", description="Where the block goes; `auto`: late, or where the upstream takes it."
    )
    template: str | None = Field(None, description="Heading of the block in place of the built-in one.")
    sticky: bool = Field(True, description="Repeat a session's blocks byte for byte at the same messages.")
    session_tokens: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Most tokens of all blocks in one request of a session; default four times `recall.max_tokens`.",
    )
