"""Sections about who calls and what is called: the server, the upstreams, identity."""

import ipaddress
from fnmatch import fnmatchcase
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from memproxy.settings.base import FilePath, HttpAddress, Positive, Seconds, Section, WebOrigin, relayed_call

RelayedCall = Annotated[str, AfterValidator(relayed_call)]

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
    headers_timeout_s: Seconds = Field(
        20.0, description="Seconds that a client may take to send a request's headers (408 after)."
    )
    body_timeout_s: Seconds = Field(
        30.0,
        description="In so many seconds of sending a body, its end or 1000 bytes for each of them must come (408 "
        "else); after an hour it must be complete.",
    )
    shutdown_grace_s: Seconds = Field(10.0, description="Seconds that open streams get to finish at shutdown.")
    allowed_hosts: list[str] = Field([], description="Host names accepted in `Host`; empty means the bound names.")
    cors_origins: list[WebOrigin] = Field([], description="Web origins that may call from a browser.")

    @property
    def url_host(self) -> str:
        """``host`` as it stands in an address: one of IPv6 in brackets."""
        return f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host


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
    routes: list[UpstreamRoute] = Field(
        [],
        description="Other upstreams by model for chat and responses; the first that matches counts. Other paths go to "
        "`base_url`.",
    )
    shared_calls: list[RelayedCall] = Field(
        [],
        description="With `auth.mode` `keys` or `jwt`: calls that every caller may make with the operator's key beside "
        "those that keep nothing, such as `POST /v1/rerank` or `GET /v1/files/*`.",
    )

    @property
    def has_own_key(self) -> bool:
        """Whether requests go out with a key of the operator's (or with a user and password in an address)."""
        used: list[UpstreamSettings | UpstreamRoute] = [self, *self.routes]
        return any(one.api_key is not None or "@" in urlsplit(one.base_url).netloc for one in used)

    @property
    def shown_url(self) -> str:
        """``base_url`` as it may be shown and logged: without a user and password in it."""
        netloc = urlsplit(self.base_url).netloc
        return self.base_url.replace(netloc, netloc.rpartition("@")[2], 1)

    def route_of(self, model: str | None) -> int | None:
        """Which of the routes requests for this model take, the first that matches (a pattern's ``*`` stands for any
        characters; upper and lower case differ); None: they go to ``base_url``.
        """
        if model is None:
            return None
        matching = (
            place for place, route in enumerate(self.routes) if any(fnmatchcase(model, p) for p in route.models)
        )
        return next(matching, None)

    def base_url_of(self, route: int | None) -> str:
        """Where requests by this route go."""
        return self.base_url if route is None else self.routes[route].base_url

    def key_of(self, route: int | None, base_url: str) -> SecretStr | None:
        """The configured key of requests that take this route to this address: of no other one's, should two lead to
        one address, and none for an address that the route does not lead to.
        """
        if self.base_url_of(route).rstrip("/") != base_url.rstrip("/"):
            return None
        return self.api_key if route is None else self.routes[route].api_key

    def of_route(self, route: UpstreamRoute) -> "UpstreamSettings":
        """The settings of a route's upstream: its own, and for the rest these."""
        own: dict[str, object] = {"base_url": route.base_url, "api_key": route.api_key, "routes": []}
        if route.timeout_s is not None:
            own["timeout_s"] = route.timeout_s
        return self.model_copy(update=own)


class ProxyKeySettings(Section):
    """One proxy key, by its hash (`memproxy keys new --config-entry` prints such an entry)."""

    id: str = Field(description="Id of the key: the twelve characters after `mpk_`.")
    hash: SecretStr = Field(description="Hash of the key.")
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
    tenant: str | None = Field(None, description="Tenant of tokens that name none.")
    claims: ClaimNames = Field(ClaimNames(), description="Names of claims.")

    @property
    def key_fits(self) -> bool:
        """Whether `key` is of the kind that the algorithms take."""
        symmetric = all(name.startswith("HS") for name in self.algorithms)
        return symmetric != ("-----BEGIN" in (self.key.get_secret_value() if self.key else ""))

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
    open_relay: bool = Field(
        False, description="Allow that beside a key for the upstream: who reaches the address uses it, whoever it is."
    )
    unnamed_user: str | None = Field(None, description="User of requests that name none (on loopback: `default`).")
