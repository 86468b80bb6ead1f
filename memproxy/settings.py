"""Settings: the schema of the configuration file. `config_file` loads it; `unbuilt` lists what may not be set yet."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

OPENAI_BASE_URL = "https://api.openai.com/v1"

GateCategory = Literal["greeting", "smalltalk", "tool", "fact"]
RecipeName = Literal["default", "dense", "rrf", "average", "bm25"]
StageName = Literal[
    "fused",
    "dense",
    "bm25",
    "average",
    "rrf",
    "phrases",
    "preferences",
    "neighbours",
    "sessions",
    "speakers",
    "times",
    "expectations",
    "substance",
]
MATCHING_STAGES: frozenset[StageName] = frozenset({"fused", "dense", "bm25", "average", "rrf"})
KindName = Literal["semantic", "procedural", "episodic", "reflective", "turn"]
Unit = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


def http_address(value: str) -> str:
    """``value`` without a slash at its end. Raises ValueError if it is no plain http or https address."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not (parts.port or 80) > 0:
        raise ValueError("must be an address that starts with http:// or https://")
    if parts.query or parts.fragment or any(character.isspace() for character in value):
        raise ValueError("must be an address without spaces, `?` and `#`")
    return value.rstrip("/")


def expanded(value: Path) -> Path:
    """``value`` with a leading ``~`` resolved. Raises ValueError if there is no such home folder."""
    try:
        return value.expanduser()
    except RuntimeError as error:
        raise ValueError("must be a path; the home folder of its `~` is not known") from error


def that_rank(value: list[StageName]) -> list[StageName]:
    """``value`` itself. Raises ValueError if the stages of it cannot rank."""
    if len(set(value)) < len(value):
        raise ValueError("must name each stage once")
    if value and not MATCHING_STAGES.intersection(value):
        raise ValueError(f"must have one of the stages that search: {', '.join(sorted(MATCHING_STAGES))}")
    return value


HttpAddress = Annotated[str, AfterValidator(http_address)]
FilePath = Annotated[Path, AfterValidator(expanded)]
Permission = Literal["chat", "memory:read", "memory:write", "act_as_user", "admin"]


def plain_types(annotation: Any) -> frozenset[Any]:
    """The types that an annotation is made of: ``int | None`` gives ``{int, NoneType}``."""
    inner = get_args(annotation)
    return frozenset().union(*map(plain_types, inner)) if inner else frozenset({annotation})


class Section(BaseModel):
    """A section of the file: unknown keys are errors, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: object, info: ValidationInfo) -> object:
        """An empty text means "not set" where that is possible; true and false are no numbers."""
        types = plain_types(cls.model_fields[info.field_name or ""].annotation)
        if value == "" and type(None) in types:
            return None
        if isinstance(value, bool) and bool not in types and types & {int, float}:
            raise ValueError("must be a number, not true or false")
        return value


class ServerSettings(Section):
    """Where the proxy listens, and its bounds."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8484, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")
    workers: Positive = Field(1, le=64, description="Relay processes.")
    max_body_bytes: Positive = Field(64 * 1024 * 1024, description="Largest chat or API body in bytes (413 above).")
    max_concurrent_requests: Positive = Field(1024, description="Requests at once per relay (503 above).")
    shutdown_grace_s: Seconds = Field(10.0, description="Seconds that open streams get to finish at shutdown.")
    allowed_hosts: list[str] = Field([], description="Host names accepted in `Host`; empty means the bound names.")
    cors_origins: list[str] = Field([], description="Web origins that may call from a browser.")


class UpstreamRoute(Section):
    """Another upstream, for some models. The client's key, which is the default upstream's, never goes there."""

    models: list[str] = Field(min_length=1, description="Models that go there; `*` stands for any characters.")
    base_url: HttpAddress = Field(description="Base URL, with `/v1`.")
    api_key: SecretStr | None = Field(None, description="Key for it; none is sent without one.")
    timeout_s: Seconds | None = Field(None, description="Longest silence, in seconds; default `upstream.timeout_s`.")


class UpstreamSettings(Section):
    """The OpenAI-compatible API that requests go to."""

    base_url: HttpAddress = Field(
        OPENAI_BASE_URL,
        description="Base URL, with `/v1`. Without one, `OPENAI_BASE_URL` of the environment, then OpenAI's own.",
        json_schema_extra={"example": f"${{OPENAI_BASE_URL:-{OPENAI_BASE_URL}}}"},
    )
    api_key: SecretStr | None = Field(None, description="Key sent upstream in place of the client's.")
    timeout_s: Seconds = Field(600.0, description="Longest silence of the upstream, in seconds (504 after).")
    connect_timeout_s: Seconds = Field(10.0, description="Longest wait for a connection, in seconds.")
    ca_file: FilePath | None = Field(None, description="Certificates (PEM) to trust beside the system's.")
    environment_proxy: bool = Field(
        True, description="Go through `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment."
    )
    routes: list[UpstreamRoute] = Field([], description="Other upstreams by model; the first that matches counts.")

    def of_route(self, route: UpstreamRoute) -> "UpstreamSettings":
        """The settings of a route's upstream: its own, and for the rest these."""
        own: dict[str, object] = {"base_url": route.base_url, "api_key": route.api_key, "routes": []}
        if route.timeout_s is not None:
            own["timeout_s"] = route.timeout_s
        return self.model_copy(update=own)


class ProxyKeySettings(Section):
    """One proxy key, by its hash (`memproxy keys new --config-entry` prints such an entry)."""

    id: str = Field(description="Id of the key: the twelve characters after `mpk_`.")
    hash: SecretStr = Field(description="scrypt hash of the key.")
    tenant: str = Field(min_length=1, max_length=256, description="Tenant it belongs to.")
    user: str | None = Field(None, description="User it is bound to.")
    project: str | None = Field(None, description="Project it is bound to.")
    name: str = Field("", description="What it is for.")
    permissions: list[Permission] = Field(["chat", "memory:read", "memory:write"], description="What it allows.")


class ClaimNames(Section):
    """Which claims of a token say what."""

    tenant: str = Field("tenant", description="Tenant; without it `auth.jwt.tenant`.")
    user: str = Field("sub", description="User.")
    project: str = Field("project", description="Project that the token is bound to.")
    permissions: str = Field("scope", description="Permissions: words in a text, or a list.")


class JwtSettings(Section):
    """Tokens of an identity provider. One of `key`, `key_file`, `jwks_file` and `jwks_url` says how they are signed."""

    algorithms: list[Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384"]] = Field(
        ["RS256"], min_length=1, description="Accepted signatures; HS ones not beside the others."
    )
    key: SecretStr | None = Field(None, description="Secret (HS) or public key in PEM (RS, ES).")
    key_file: FilePath | None = Field(None, description="File with that.")
    jwks_file: FilePath | None = Field(None, description="File with the provider's keys (JWKS).")
    jwks_url: HttpAddress | None = Field(
        None, description="Address of the provider's keys (JWKS); rotation is followed."
    )
    issuer: str | None = Field(None, description="Required issuer (`iss`).")
    audience: str | None = Field(None, description="Required audience (`aud`).")
    leeway_s: float = Field(30.0, ge=0, le=600, description="Clock difference that is forgiven, in seconds.")
    tenant: str | None = Field(None, description="Tenant of tokens that name none.")
    claims: ClaimNames = Field(ClaimNames(), description="Names of claims.")

    @property
    def key_fits(self) -> bool:
        """Whether `key` is of the kind that the algorithms take."""
        symmetric = all(name.startswith("HS") for name in self.algorithms)
        return symmetric != ("-----BEGIN" in (self.key.get_secret_value() if self.key else ""))

    @property
    def sources(self) -> tuple[object, ...]:
        """What says how tokens are signed; one of them must be set."""
        return (self.key, self.key_file, self.jwks_file, self.jwks_url)


class AuthSettings(Section):
    """Whose memory it is."""

    mode: Literal["passthrough", "keys", "jwt"] = Field("passthrough", description="How callers are recognised.")
    tenants: dict[str, str] = Field({}, description="Key hash (`memproxy keys hash`) to tenant name.")
    keys: list[ProxyKeySettings] = Field(
        [],
        description="Proxy keys of mode `keys`, beside those of `memproxy keys new`.",
        json_schema_extra={"secret": True},
    )
    jwt: JwtSettings = Field(JwtSettings(), description="Tokens of mode `jwt`.")
    allow_remote: bool = Field(False, description="Allow `passthrough` on an address that is not loopback.")
    unnamed_user: str | None = Field(None, description="User of requests that name none (on loopback: `default`).")


class GateSettings(Section):
    """Which requests are not searched for."""

    enabled: bool = Field(True, description="Off: every request is searched.")
    skip: list[GateCategory] = Field(
        ["greeting", "smalltalk", "tool", "fact"],
        description="Kinds of requests that are not searched for; personal words override `fact`.",
    )
    prototypes: bool = Field(
        False, description="Skip a question that no pattern knows when its vector is nearest to general examples."
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
    similarity_threshold: Unit = Field(0.6, description="Floor of the calibrated score.")
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


class LearnSettings(Section):
    """How facts are learned behind the answer."""

    enabled: bool = Field(True, description="Off: no extraction; turns are still journalled, indexed and recalled.")
    mode: Literal["model", "verbatim"] = Field("model", description="`model`: a chat model extracts facts.")
    every_turns: Positive = Field(10, description="Learn when this many new turns (messages) have come.")
    idle_s: Seconds = Field(60.0, description="Learn when a session was silent for this long.")
    drift_threshold: Unit | None = Field(None, description="Learn when the topic drifts below this similarity.")
    window_turns: Positive = Field(15, le=200, description="Turns that one extraction reads.")
    judge: Literal["rules", "llm"] = Field("rules", description="Who decides between two similar facts.")
    min_trust: Literal["user", "assistant", "tool", "document"] = Field(
        "document", description="Least trust of what is injected."
    )
    model_tokens_per_hour: Positive | None = Field(None, description="Budget of model tokens per tenant and hour.")
    prompts_dir: FilePath | None = Field(None, description="Prompts in place of the built-in ones.")
    max_attempts: Positive = Field(5, description="Tries before a job is parked (an outage does not count).")


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


class Settings(Section):
    """The whole configuration."""

    server: ServerSettings = ServerSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    auth: AuthSettings = AuthSettings()
    gate: GateSettings = GateSettings()
    rewrite: RewriteSettings = RewriteSettings()
    recall: RecallSettings = RecallSettings()
    inject: InjectSettings = InjectSettings()
    learn: LearnSettings = LearnSettings()
    dedup: DedupSettings = DedupSettings()
    models: ModelsSettings = ModelsSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    store: StoreSettings = StoreSettings()
    state: StateSettings = StateSettings()
    retention: RetentionSettings = RetentionSettings()
    privacy: PrivacySettings = PrivacySettings()
    working: WorkingSettings = WorkingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
