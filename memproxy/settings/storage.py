"""Sections about where memories and state live, how long, how protected; and what the proxy tells of itself."""

from typing import Literal

from pydantic import Field, SecretStr

from memproxy.settings.base import FilePath, HttpAddress, Positive, Seconds, Section, Unit


class StoreSettings(Section):
    """Where memories live."""

    backend: Literal["edge", "qdrant", "postgres"] = Field("edge", description="`edge`: embedded; `qdrant`: a server.")
    path: FilePath | None = Field(None, description="Folder of the embedded store; default `<home>/store`.")
    url: HttpAddress | None = Field(None, description="Address of a Qdrant server.")
    api_key: SecretStr | None = Field(None, description="Key of a Qdrant server.")
    collection: str = Field(
        "memproxy", pattern=r"^[A-Za-z0-9_-]{1,100}$", description="Collection name: letters, digits, `-`, `_`."
    )
    index_bytes: int = Field(
        256 * 1024 * 1024,
        ge=0,
        description="Bytes of memory for indexes of users searched lately, embedded store only; 0 for none.",
    )


class StateSettings(Section):
    """Where the journal, sessions and slots live."""

    backend: Literal["sqlite", "redis"] = Field("sqlite", description="`sqlite`: embedded.")
    path: FilePath | None = Field(None, description="File of the embedded state; default `<home>/state.db`.")
    url: str | None = Field(None, description="Address of a Redis server.")
    commit_timeout_ms: Positive = Field(2000, description="Longest an answer's end waits for the journal.")
    sync: Literal["normal", "full"] = Field("normal", description="`full`: survives a power cut, costs an fsync.")


class TenantRetention(Section):
    """What holds for one tenant in place of the deployment's."""

    ttl_days: float | None = Field(None, gt=0, description="Days until a memory expires.")
    max_per_user: Positive | None = Field(None, description="Most memories of one user.")


class PruneWeights(Section):
    """What counts when memories are over the limit; the lowest score goes first."""

    confidence: Unit = Field(0.40, description="Weight of the confidence.")
    recency: Unit = Field(0.35, description="Weight of how lately it was written or recalled.")
    retrievals: Unit = Field(0.25, description="Weight of how often it was recalled.")
    importance: Unit = Field(0.20, description="Weight of an importance above or below 0.5.")
    feedback: Unit = Field(0.20, description="Weight of what people said of it.")
    half_life_h: Seconds = Field(24.0, description="Hours after which the recency is one half.")
    most_retrievals: Positive = Field(10, description="Retrievals beyond which more do not count.")
    turn_confidence: Unit = Field(0.5, description="Confidence that a verbatim turn counts with.")


class RetentionSettings(Section):
    """How long memories are kept."""

    ttl_days: float | None = Field(
        None,
        gt=0,
        description="Days from when it was said or learned until a memory expires; its own time comes first.",
    )
    max_per_user: Positive | None = Field(None, description="Most memories of one user, turns included.")
    prune: bool = Field(
        False, description="Erase what has expired periodically; so it is, too, with any other setting of this section."
    )
    prune_every_s: Seconds = Field(3600.0, description="Seconds between two passes over all users.")
    tenants: dict[str, TenantRetention] = Field({}, description="Tenants with other values.")
    weights: PruneWeights = Field(PruneWeights(), description="The score of pruning.")


class PrivacySettings(Section):
    """What is never stored in the clear."""

    redact: list[Literal["secrets", "cards", "emails", "phones"]] = Field(
        ["secrets"],
        description="What is replaced in all texts before they are stored, by its format (docs/privacy.md).",
    )
    encrypt: bool = Field(False, description="Encrypt payload text per user.")


class WorkingSettings(Section):
    """Working memory."""

    default_ttl_s: Seconds = Field(300.0, description="Seconds an entry lives.")
    max_entries_per_namespace: Positive = Field(50, description="Most entries of a namespace.")


class TelemetrySettings(Section):
    """Metrics and logs."""

    metrics: bool = Field(True, description="Serve `/metrics`.")
    metrics_token: SecretStr | None = Field(None, description="Bearer token that `/metrics` asks for.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level logged.")
    log_format: Literal["text", "json"] = Field("text", description="Log line format.")
    log_content: bool = Field(False, description="Allow message text in debug logs.")
