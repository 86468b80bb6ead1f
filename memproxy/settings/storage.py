"""Sections about where memories and state live, how long, how protected; and what the proxy tells of itself."""

from typing import Literal

from pydantic import Field, SecretStr

from memproxy.settings.base import FilePath, HttpAddress, Positive, Seconds, Section


class StoreSettings(Section):
    """Where memories live."""

    backend: Literal["edge", "qdrant", "postgres"] = Field("edge", description="`edge`: embedded; `qdrant`: a server.")
    path: FilePath | None = Field(None, description="Folder of the embedded store; default `<home>/store`.")
    url: HttpAddress | None = Field(None, description="Address of a Qdrant server.")
    api_key: SecretStr | None = Field(None, description="Key of a Qdrant server.")
    collection: str = Field(
        "memproxy", pattern=r"^[A-Za-z0-9_-]{1,100}$", description="Collection name: letters, digits, `-`, `_`."
    )


class StateSettings(Section):
    """Where the journal, sessions and slots live."""

    backend: Literal["sqlite", "redis"] = Field("sqlite", description="`sqlite`: embedded.")
    path: FilePath | None = Field(None, description="File of the embedded state; default `<home>/state.db`.")
    url: str | None = Field(None, description="Address of a Redis server.")
    commit_timeout_ms: Positive = Field(2000, description="Longest an answer's end waits for the journal.")
    sync: Literal["normal", "full"] = Field("normal", description="`full`: survives a power cut, costs an fsync.")


class RetentionSettings(Section):
    """How long memories are kept."""

    ttl_days: float | None = Field(None, gt=0, description="Days until a memory expires.")
    max_per_user: Positive | None = Field(None, description="Most memories of one user.")
    prune: bool = Field(False, description="Prune periodically.")


class PrivacySettings(Section):
    """What is never stored in the clear."""

    redact: list[Literal["secrets", "cards", "emails", "phones"]] = Field(
        ["secrets"], description="What is replaced in texts before they are stored, by its format."
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
