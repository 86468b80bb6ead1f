"""Sections about what is learned, and the models that it takes."""

from typing import Literal

from pydantic import Field, SecretStr

from memproxy.settings.base import FilePath, FolderPath, HttpAddress, Positive, Seconds, Section, Unit


class LearnSettings(Section):
    """How facts are learned behind the answer."""

    enabled: bool = Field(True, description="Off: no extraction; turns are still journalled, indexed and recalled.")
    mode: Literal["model", "verbatim"] = Field("model", description="`model`: a chat model extracts facts.")
    every_turns: Positive = Field(10, description="Learn when this many new turns (messages) have come.")
    idle_s: Seconds = Field(60.0, description="Learn when a session was silent for this long.")
    drift_threshold: Unit | None = Field(None, description="Learn when the topic drifts below this similarity.")
    window_turns: Positive = Field(15, le=200, description="Turns that one extraction reads.")
    concurrency: Positive = Field(4, le=256, description="Users learned from at once, each with one model call.")
    judge: Literal["rules", "llm"] = Field("rules", description="Who decides between two similar facts.")
    min_trust: Literal["user", "assistant", "tool", "document"] = Field(
        "document", description="Least trust of what is injected."
    )
    model_tokens_per_hour: Positive | None = Field(None, description="Budget of model tokens per tenant and hour.")
    model_tokens_per_day: Positive | None = Field(None, description="The same per day (UTC).")
    prompts_dir: FolderPath | None = Field(None, description="Prompts in place of the built-in ones.")
    max_attempts: Positive = Field(
        5,
        description="Tries before a job is parked. What is not its fault does not count: an outage of the store, the "
        "state or the model (no connection, timeouts, 5xx, 429), a refused key, a spent budget.",
    )
    max_outage_s: Seconds = Field(
        86_400.0,
        description="Longest that a job waits for a model that does not answer (from the start of the engine at the "
        "earliest); then it is parked with the reason.",
    )


class DedupSettings(Section):
    """Cosine bands that nominate an existing memory; slots and dates decide."""

    update_above: Unit = Field(0.9, description="Above: the same statement, updated.")
    related_above: Unit = Field(0.7, description="Above: related; the conservative gray zone.")


class ModelSettings(Section):
    """One model role. Without `base_url` or `model` the upstream, the request's model and its key are used."""

    base_url: HttpAddress | None = Field(None, description="Base URL; default the upstream's.")
    model: str | None = Field(None, description="Model; default the request's own.")
    api_key: SecretStr | None = Field(None, description="Key; default the request's own, held in memory only.")
    timeout_s: Seconds = Field(30.0, description="Seconds for one call.")
    temperature: float = Field(0.1, ge=0, le=2, description="Sampling temperature.")
    max_tokens: Positive = Field(500, description="Most tokens of one answer.")


class RewriteModelSettings(ModelSettings):
    """The rewriting model: short answers."""

    max_tokens: Positive = Field(100, description="Most tokens of one answer.")


class ModelsSettings(Section):
    """The models behind the proxy, by role."""

    extract: ModelSettings = Field(ModelSettings(), description="Extracts facts from turns.")
    rewrite: RewriteModelSettings = Field(RewriteModelSettings(), description="Completes vague queries.")
    judge: ModelSettings = Field(ModelSettings(), description="Decides between two similar facts.")
    rerank: ModelSettings = Field(ModelSettings(), description="Orders what recall found.")
    reader: ModelSettings = Field(ModelSettings(), description="Answers the questions of an evaluation.")


class EmbeddingSettings(Section):
    """The embedding model."""

    provider: Literal["fastembed", "openai", "none"] = Field(
        "fastembed", description="`fastembed`: local; `openai`: an API; `none`: words alone."
    )
    model: str = Field("sentence-transformers/all-MiniLM-L6-v2", description="Model name.")
    model_path: FilePath | None = Field(None, description="Folder of a local ONNX model (no download).")
    dimension: Positive | None = Field(None, description="Vector length; default the model's.")
    base_url: HttpAddress | None = Field(None, description="Base URL of provider `openai`.")
    api_key: SecretStr | None = Field(None, description="Key of provider `openai`.")
    threads: Positive = Field(1, description="Threads of the local model.")
    query_precision: Literal["int8", "fp32"] = Field(
        "int8",
        description="Weights that questions are embedded with (`fastembed` alone). `int8`: by a copy of the model, "
        "twice as fast; where it cannot be made, `fp32`: the model itself, as stored texts always are.",
    )
    token_vectors: bool | None = Field(
        None,
        description="Keep token vectors, by which the default recipe ranks: 1.7 KB a turn, at most 6 KiB (`fastembed` "
        "alone). Default: where the recipe or the stages use them.",
    )
