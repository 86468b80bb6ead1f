"""Settings: the schema of the configuration file, section by section. `loading` reads one from files and variables."""

import ipaddress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from memproxy.core.text import STEPS


def storable(value: int) -> int:
    """``value`` itself. Raises ValueError if no database has such a number."""
    if value >= 2**63:
        raise ValueError("must be below 9223372036854775808")
    return value


Unit = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1), AfterValidator(storable)]
Seconds = Annotated[float, Field(gt=0, le=3_153_600_000)]  # a hundred years: a time that long ago is one still
Days = Annotated[float, Field(gt=0, le=36_500)]  # what is older than the calendar no store can compare


def http_address(value: str) -> str:
    """``value`` without a slash at its end. Raises ValueError if it is no plain http or https address."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not (parts.port or 80) > 0:
        raise ValueError("must be an address that starts with http:// or https://")
    if parts.query or parts.fragment or any(character.isspace() for character in value):
        raise ValueError("must be an address without spaces, `?` and `#`")
    return value.rstrip("/")


def in_a_header(value: SecretStr) -> SecretStr:
    """``value`` without the end of line that files give. Raises ValueError if no header can hold it."""
    key = value.get_secret_value().strip()
    if not (key and key.isascii() and key.isprintable()):
        raise ValueError("must be ASCII characters on one line, as it is sent in a header")
    return SecretStr(key)


def cron(value: str) -> str:
    """``value`` itself. Raises ValueError if cron would not read it."""
    try:
        CronSim(value, datetime.now(UTC))
    except CronSimError as error:
        raise ValueError(f"must be five fields as in a crontab (`0 3 * * *`: daily at 03:00 UTC): {error}") from error
    return value


def web_origin(value: str) -> str:
    """``value`` itself. Raises ValueError if no browser would say it in ``Origin``."""
    parts = urlsplit(value)
    if value != "null" and (
        not parts.netloc or value.rstrip("/").lower() != f"{parts.scheme}://{parts.netloc}".lower()
    ):
        raise ValueError("must be an origin such as https://app.example.com, with its scheme and without a path")
    return value


def relayed_call(value: str) -> str:
    """``value`` itself. Raises ValueError if it is no method and path below ``/v1/``, with ``/*`` at its end or not."""
    method, _, path = value.partition(" ")
    pieces = path.removesuffix("/*").split("/")
    is_method = method in {"GET", "POST", "PUT", "PATCH", "DELETE"}
    if not is_method or pieces[:2] != ["", "v1"] or not all(pieces[2:]) or "*" in "".join(pieces) or " " in path:
        raise ValueError("must be a method and a path, such as `POST /v1/rerank` or `GET /v1/files/*`")
    return value


def usable_name(value: str) -> str:
    """``value`` itself. Raises ValueError if no request or command could name it, and nobody could erase it."""
    if not 0 < len(value) <= 256 or value != value.strip() or min(value) < " " or value in STEPS:
        raise ValueError("must be a name of 1 to 256 characters on one line, without blanks around it")
    return value


def expanded(value: Path) -> Path:
    """``value`` with a leading ``~`` resolved. Raises ValueError if there is no such home folder."""
    try:
        return value.expanduser()
    except RuntimeError as error:
        raise ValueError("must be a path; the home folder of its `~` is not known") from error


def existing_folder(value: Path) -> Path:
    """``value`` itself. Raises ValueError if there is no such folder."""
    if not value.is_dir():
        raise ValueError("must be a folder that is there")
    return value


HttpAddress = Annotated[str, AfterValidator(http_address)]
WebOrigin = Annotated[str, AfterValidator(web_origin)]
HeaderSecret = Annotated[SecretStr, AfterValidator(in_a_header)]
FilePath = Annotated[Path, AfterValidator(expanded)]
FolderPath = Annotated[Path, AfterValidator(expanded), AfterValidator(existing_folder)]


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


# Who calls and what is called: the server, the upstreams, identity.

RelayedCall = Annotated[str, AfterValidator(relayed_call)]
Name = Annotated[str, AfterValidator(usable_name)]

OPENAI_BASE_URL = "https://api.openai.com/v1"

Permission = Literal["chat", "memory:read", "memory:write", "act_as_user", "upstream:all", "admin"]


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class ServerSettings(Section):
    """Where the proxy listens, and its bounds."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8484, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")
    workers: Positive = Field(1, le=64, description="Relay processes.")
    max_body_bytes: Positive = Field(64 * 1024 * 1024, description="Largest chat or API body in bytes (413 above).")
    max_concurrent_requests: Positive = Field(1024, description="Requests at once per relay (503 above).")
    max_held_bytes: Positive = Field(
        1024 * 1024 * 1024, description="Bodies of all requests together that a relay holds in memory (503 above)."
    )
    headers_timeout_s: Seconds = Field(20.0, description="Seconds to send a request's headers in (408 after).")
    body_timeout_s: Seconds = Field(
        30.0,
        description="A body must end within this time or bring 1000 bytes for each second of it (408 else); it "
        "must end within an hour.",
    )
    shutdown_grace_s: Seconds = Field(10.0, description="Seconds that open streams get to finish at shutdown.")
    allowed_hosts: list[str] = Field([], description="Host names accepted in `Host`; empty means the bound names.")
    cors_origins: list[WebOrigin] = Field([], description="Web origins that may call from a browser.")

    @property
    def url_host(self) -> str:
        """``host`` as it stands in an address: one of IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host


class UpstreamSettings(Section):
    """The OpenAI-compatible API that requests go to."""

    base_url: HttpAddress = Field(
        OPENAI_BASE_URL,
        description="Base URL, with `/v1`. Without one, `OPENAI_BASE_URL` of the environment, then OpenAI's own.",
        json_schema_extra={"example": f"${{OPENAI_BASE_URL:-{OPENAI_BASE_URL}}}"},
    )
    api_key: HeaderSecret | None = Field(None, description="Key sent upstream in place of the client's.")
    timeout_s: Seconds = Field(600.0, description="Longest silence of the upstream, in seconds (504 after).")
    connect_timeout_s: Seconds = Field(10.0, description="Longest wait for a connection, in seconds.")
    ca_file: FilePath | None = Field(None, description="Certificates (PEM) to trust beside the system's.")
    environment_proxy: bool = Field(
        True, description="Go through `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment."
    )
    shared_calls: list[RelayedCall] = Field(
        [],
        description="With `auth.mode` `keys` or `jwt`: calls that every caller may make with the operator's key beside "
        "those that keep nothing, such as `POST /v1/rerank` or `GET /v1/files/*`.",
    )

    @property
    def shown_url(self) -> str:
        """``base_url`` as it may be shown and logged: without a user and password in it."""
        netloc = urlsplit(self.base_url).netloc
        return self.base_url.replace(netloc, netloc.rpartition("@")[2], 1)


class ProxyKeySettings(Section):
    """One proxy key, by its hash (`memproxy keys new --config-entry` prints such an entry)."""

    id: str = Field(description="Id of the key: the twelve characters after `mpk_`.")
    hash: SecretStr = Field(description="Hash of the key.")
    tenant: Name = Field(description="Tenant it belongs to.")
    user: Name | None = Field(None, description="User it is bound to.")
    project: Name | None = Field(None, description="Project it is bound to.")
    name: str = Field("", description="What it is for.")
    permissions: list[Permission] = Field(["chat", "memory:read", "memory:write"], description="What it allows.")


class ClaimNames(Section):
    """Which claims of a token say what."""

    tenant: str = Field("tenant", description="Tenant; without it `auth.jwt.tenant`.")
    user: str = Field("sub", description="User.")
    project: str = Field("project", description="Project that the token is bound to.")
    permissions: str | None = Field(
        None, description="Permissions: words in a text, or a list; without one, a token has the usual three."
    )


class JwtSettings(Section):
    """Tokens of an identity provider. One of `key`, `key_file`, `jwks_file` and `jwks_url` says how they are signed."""

    algorithms: list[Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384"]] = Field(
        ["RS256"], min_length=1, description="Accepted signatures; HS ones not beside the others."
    )
    key: SecretStr | None = Field(
        None, description="Secret (HS; at least as long as its hash, 32 bytes for HS256) or public key in PEM (RS, ES)."
    )
    key_file: FilePath | None = Field(None, description="File with that.")
    jwks_file: FilePath | None = Field(None, description="File with the provider's keys (JWKS).")
    jwks_url: HttpAddress | None = Field(
        None, description="Address of the provider's keys (JWKS); rotation is followed."
    )
    issuer: str | None = Field(None, description="Required issuer (`iss`).")
    audience: str | None = Field(None, description="Required audience (`aud`).")
    leeway_s: float = Field(30.0, ge=0, le=600, description="Clock difference that is forgiven, in seconds.")
    tenant: Name | None = Field(None, description="Tenant of tokens that name none.")
    claims: ClaimNames = Field(ClaimNames(), description="Names of claims.")

    @property
    def least_secret_bytes(self) -> int:
        """The shortest secret that the HS algorithms take: as long as their hash (RFC 7518, section 3.2); else 0."""
        return max(int(name[2:]) // 8 if name.startswith("HS") else 0 for name in self.algorithms)

    @property
    def short_secret(self) -> str:
        """What is wrong with a secret shorter than that, and what to do."""
        return (
            f"a secret for {', '.join(self.algorithms)} has at least {self.least_secret_bytes} bytes: a shorter one "
            "can be guessed from any token; `openssl rand -base64 48` makes one (the identity provider needs the same)"
        )


class AuthSettings(Section):
    """Whose memory it is."""

    mode: Literal["passthrough", "keys", "jwt"] = Field("passthrough", description="How callers are recognised.")
    tenants: dict[str, Name] = Field({}, description="Key hash (`memproxy keys hash`) to tenant name.")
    keys: list[ProxyKeySettings] = Field(
        [],
        description="Proxy keys of mode `keys`, beside those of `memproxy keys new`.",
        json_schema_extra={"secret": True},
    )
    jwt: JwtSettings = Field(JwtSettings(), description="Tokens of mode `jwt`.")
    allow_remote: bool = Field(False, description="Allow `passthrough` on an address that is not loopback.")
    open_relay: bool = Field(False, description="Allow that with `upstream.api_key`, which whoever comes then uses.")
    unnamed_user: Name | None = Field(None, description="User of requests that name none (on loopback: `default`).")


# How much callers may do. Nothing is limited by default.


class TenantLimits(Section):
    """Of one tenant, all its users together. What learning may cost it is `learn.model_tokens_per_hour`."""

    chat_per_minute: Positive | None = Field(
        None, description="Chat requests in a minute, with or without memory (429 above)."
    )
    turns_per_minute: Positive | None = Field(None, description="Turns that are taken in within a minute.")
    memories: Positive | None = Field(None, description="Memories that are kept, turns included.")


class UserLimits(TenantLimits):
    """Of one user."""

    model_tokens_per_hour: Positive | None = Field(
        None, description="Tokens of learning's model calls in an hour; learning waits then."
    )


class LimitsSettings(Section):
    """How much callers may do. The memory API answers 429 above a limit; a chat request goes on without memory."""

    tenant: TenantLimits = TenantLimits()
    user: UserLimits = UserLimits()


# What a request borrows from memory: gate, rewriting, recall, injection.

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
        description="Kinds of messages that are not searched for, none of them with a first-person word; a `fact` is, "
        "if the user's memories speak of it.",
    )


class RewriteSettings(Section):
    """How a vague query is completed before the search."""

    mode: Literal["none", "context", "llm", "hyde"] = Field(
        "context",
        description="`context`: with key terms of earlier messages; `llm`: by `models.rewrite`; `hyde`: `context`, and "
        "when nothing relevant is found, that model writes a hypothetical statement to search for.",
    )
    timeout_s: Seconds = Field(2.0, le=60, description="A model's own time, beside recall's deadline; then `context`.")


class RecallSettings(Section):
    """What is searched and how much is used."""

    recipe: RecipeName = Field("default", description="How memories are ranked; see docs/recall.md.")
    stages: Annotated[list[StageName], AfterValidator(that_rank)] = Field(
        [], description="Stages in place of the recipe's, each once; one of the first five must be there."
    )
    limit: int = Field(8, ge=1, le=200, description="Most memories in a block.")
    similarity_threshold: Unit = Field(0.3, description="Floor of the calibrated score.")
    min_confidence: Unit = Field(0.3, description="Least confidence of a memory.")
    max_tokens: int = Field(600, ge=0, le=100_000, description="Token budget of a block.")
    deadline_ms: Positive = Field(150, le=60_000, description="Recall's deadline; past it the request goes on without.")
    kinds: list[KindName] = Field(list(get_args(KindName)), description="Kinds that are recalled.")
    first_turn_facts: int = Field(
        0, ge=0, le=50, description="How many of the user's most important facts a session's first turn is given."
    )
    rerank: Literal["none", "model", "local"] = Field(
        "none",
        description="Who reads the best 20 again, together with the question. `model`: `models.rerank`; `local`: "
        "`recall.rerank_model` on this machine.",
    )
    rerank_model: str = Field(
        "Xenova/ms-marco-MiniLM-L-6-v2", description="Cross-encoder of `local` (80 MB, fetched at the first start)."
    )
    rerank_model_path: FilePath | None = Field(
        None, description="Folder of a cross-encoder in ONNX, with its tokenizer (no download)."
    )
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


# What is learned, and the models that it takes.


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
        "state or the model (no connection, timeouts, 5xx, 429), a refused key, a spent budget. A job at "
        "which the engine was killed so often is tried again 1, 4 and 16 hours later.",
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
    api_key: HeaderSecret | None = Field(None, description="Key; default the request's own, held in memory only.")
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
    api_key: HeaderSecret | None = Field(None, description="Key of provider `openai`.")
    threads: Positive = Field(1, description="Threads of the local model.")
    query_precision: Literal["int8", "fp32"] = Field(
        "int8",
        description="What embeds questions (`fastembed` alone). `int8`: a copy of the model, twice as fast; `fp32`, "
        "also where no copy can be made: the model itself, which always embeds stored texts.",
    )
    token_vectors: bool | None = Field(
        None,
        description="Keep token vectors, by which the default recipe ranks: 1.7 KB a turn, at most 6 KiB (`fastembed` "
        "alone). Default: where the recipe or the stages use them.",
    )


# Where memories and state live, how long, how protected; and what the proxy tells of itself.


class StoreSettings(Section):
    """Where memories live."""

    backend: Literal["edge", "qdrant", "postgres"] = Field(
        "edge", description="`edge`: embedded; `qdrant`, `postgres`: a server."
    )
    path: FilePath | None = Field(None, description="Folder of the embedded store; default `<home>/store`.")
    url: str | None = Field(None, description="Server: `http://…` of Qdrant, `postgresql://user:password@host/name`.")
    api_key: HeaderSecret | None = Field(None, description="Key of a Qdrant server.")
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="Port of Qdrant's gRPC; default: one above that of `url`. 0: REST alone."
    )
    quantization: Literal["none", "int8"] = Field(
        "none", description="`int8`: Qdrant compares vectors rounded to bytes first: a quarter of the memory."
    )
    index: Literal["hnsw", "ivfflat"] = Field(
        "hnsw",
        description="What nominates in PostgreSQL for users of more than 20,000 vectors; fewer are all compared.",
    )
    lists: Positive = Field(100, le=32_768, description="Lists of an IVFFlat index, about the root of its vectors.")
    probes: Positive = Field(10, le=32_768, description="Lists that a search reads; as many as `lists`: all.")
    collection: str = Field("memproxy", pattern=r"^[A-Za-z0-9_-]{1,100}$", description="Letters, digits, `-` and `_`.")
    index_bytes: int = Field(
        256 * 1024 * 1024,
        ge=0,
        description="Bytes of memory for indexes of users searched lately, embedded store only; 0 for none.",
    )


class StateSettings(Section):
    """Where the journal, sessions and slots live."""

    backend: Literal["sqlite", "postgres"] = Field("sqlite", description="`sqlite`: embedded; `postgres`: a server.")
    path: FilePath | None = Field(None, description="File of the embedded state; default `<home>/state.db`.")
    url: str | None = Field(None, description="Address of the server: `postgresql://user:password@host/name`.")
    commit_timeout_ms: Positive = Field(2000, description="Longest an answer's end waits for the journal.")
    sync: Literal["normal", "full"] = Field("normal", description="`full`: survives a power cut, costs an fsync.")


class EngineSettings(Section):
    """The processes that recall and learn."""

    workers: Positive = Field(
        1, le=64, description="Engine processes; more than one needs a server store and `state.backend: postgres`."
    )


class CacheSettings(Section):
    """What may be forgotten: hot memories, counts of limits, working memory, notices of changes (docs/redis.md)."""

    backend: Literal["memory", "redis"] = Field(
        "memory", description="`memory`: each process its own; `redis`: a server that all replicas share."
    )
    url: str | None = Field(None, description="`redis://:password@host:6379/0`, `rediss://…` (TLS) or `unix://…`.")
    ttl_s: Seconds = Field(300.0, description="Seconds that hot memories are kept without being read anew.")
    per_agent: int = Field(50, ge=1, le=200, description="Hot memories of a user in a project and for an agent.")


class TenantRetention(Section):
    """What holds for one tenant in place of the deployment's."""

    ttl_days: Days | None = Field(None, description="Days until a memory expires.")
    max_per_user: Positive | None = Field(None, description="Most memories of one user.")


class RetentionSettings(Section):
    """How long memories are kept."""

    ttl_days: Days | None = Field(
        None, description="Days from when it was said or learned until a memory expires; its own time comes first."
    )
    max_per_user: Positive | None = Field(None, description="Most memories of one user, turns included.")
    prune: bool = Field(
        False, description="Erase periodically what has expired; any other setting of this section does so, too."
    )
    prune_every_s: Seconds = Field(3600.0, description="Seconds between two passes over all users.")
    tenants: dict[str, TenantRetention] = Field({}, description="Tenants with other values.")


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
    max_value_bytes: Positive = Field(1_048_576, description="Most bytes of an entry's data, as JSON.")
    inject: Literal["none", "own", "all"] = Field(
        "none",
        description="Which entries a request is told of, by key, never by content: `own`, those of its session and "
        "agent; `all`, others of the same user too.",
    )


class ConversationSettings(Section):
    """Conversations whose clients send no history, and when one is over."""

    replay: int = Field(
        0, ge=0, le=200, description="Messages of a named session put before a request that brings no history; 0: none."
    )
    replay_tokens: Positive = Field(8_000, description="Most tokens of these messages together.")
    silence_s: Seconds = Field(
        600.0, description="Seconds of silence after which a session counts as over, and is summarised by a model."
    )


class CompressSettings(Section):
    """Long histories are sent as a summary of their state and their last messages."""

    above_tokens: Positive | None = Field(None, description="Tokens above which a history is compressed; unset: never.")
    keep_last: Positive = Field(5, le=1_000, description="Last messages that are always sent as they are.")
    every_turns: Positive = Field(10, le=1_000, description="Messages after which the state is made anew.")
    tenants: dict[str, Positive] = Field({}, description="Tenants with another `above_tokens`.")


class ToolsSettings(Section):
    """Tools that the proxy offers to the model itself."""

    memory: Literal["none", "inject"] = Field(
        "none", description="Whether a request's model is offered the memory tools itself; docs/mcp.md."
    )


class ControlSettings(Section):
    """What users say to memory itself, in their chat."""

    in_chat: bool = Field(
        False,
        description='Answer or obey short messages to memory ("What do you know about me?", "Forget my birthday") in '
        "the upstream's place; docs/control.md.",
    )


class ExperimentSettings(Section):
    """Whether memory helps: what happens to users who are given none."""

    holdout: Unit = Field(
        0.0, description="Share of users, by a keyed hash, for whom all is done but injection; docs/experiment.md."
    )


class DreamSettings(Section):
    """Consolidation while nobody waits."""

    schedule: Annotated[str, AfterValidator(cron)] | None = Field(
        None, description="When everybody's memories are consolidated, as cron writes it (`0 3 * * *`), in UTC."
    )
    max_entries: Positive = Field(1000, description="Most entries that one dream looks at; the next one goes on there.")
    max_seconds: Seconds = Field(600.0, description="Longest that one dream takes, as `max_entries`.")
    max_model_tokens: int = Field(
        50_000, ge=0, description="Most model tokens of one dream; 0: by rules alone, no model is asked."
    )
    reflect: Literal["dream", "session_end", "count"] = Field(
        "dream",
        description="When a model draws insights from what was learned: in dreams alone; also when a session is over "
        "(ended by a call, or silent for `conversation.silence_s`); also whenever something was learned.",
    )
    reflect_from: Positive = Field(8, description="Least new entries, of some thirty, of which insights are drawn.")
    permission_for: list[Literal["health", "money", "credentials", "security"]] = Field(
        ["health", "money", "credentials", "security"],
        description="What is inferred about these is given to nobody before its user allows it.",
    )


class TelemetrySettings(Section):
    """Metrics, logs and traces."""

    metrics: bool = Field(True, description="Serve `/metrics`.")
    metrics_token: HeaderSecret | None = Field(None, description="Bearer token that `/metrics` asks for.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level logged.")
    log_format: Literal["text", "json"] = Field("text", description="Log line format.")
    log_content: bool = Field(False, description="Allow message text in debug logs. Not built yet: `true` is refused.")
    traces: bool = Field(
        False,
        description="Send traces to an OpenTelemetry collector by OTLP over HTTP (the extra `otel`); its environment "
        "variables configure the rest (`OTEL_EXPORTER_OTLP_ENDPOINT`).",
    )


class Settings(Section):
    """The whole configuration."""

    server: ServerSettings = ServerSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    auth: AuthSettings = AuthSettings()
    limits: LimitsSettings = LimitsSettings()
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
    engine: EngineSettings = EngineSettings()
    cache: CacheSettings = CacheSettings()
    retention: RetentionSettings = RetentionSettings()
    privacy: PrivacySettings = PrivacySettings()
    working: WorkingSettings = WorkingSettings()
    tools: ToolsSettings = ToolsSettings()
    control: ControlSettings = ControlSettings()
    conversation: ConversationSettings = ConversationSettings()
    compress: CompressSettings = CompressSettings()
    experiment: ExperimentSettings = ExperimentSettings()
    dream: DreamSettings = DreamSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @property
    def shares_state(self) -> bool:
        """Whether other relays may write the same state, so that what one of them remembers is not all there is."""
        return self.server.workers > 1 or self.state.backend == "postgres"
