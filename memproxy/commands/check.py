"""``memproxy check``: is everything there that a start needs? One line each, with a remedy where it is not."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx
import typer
from rich.console import Console

from memproxy.auth.identity import default_user
from memproxy.commands.installation import served
from memproxy.commands.options import Config, Finding, Json, Whole, show, tell_of_all_tenants
from memproxy.core.protocol import READY_PATH
from memproxy.engine.readiness import DEGRADED, REFUSED
from memproxy.errors import AuthUnavailable, ConfigError, MemproxyError
from memproxy.ports.state import STORE_ID
from memproxy.relay.network import environment_proxy, tls_context
from memproxy.serve.instance import AlreadyServed, locked
from memproxy.serve.supervisor import bind
from memproxy.settings import Settings, UpstreamSettings
from memproxy.settings.home import home_dir, secret, state_path
from memproxy.settings.loading import load_settings
from memproxy.wiring.cache import redis_server
from memproxy.wiring.engine_parts import make_embedder, make_store
from memproxy.wiring.files import check_files, count_signing_keys, memory_for
from memproxy.wiring.state_stores import make_state

app = typer.Typer()

TIMEOUT_S = 10.0
MODELS_FROM = "https://huggingface.co"
DOWNLOAD_PATIENCE_S = 3.0
EMBEDDER_PATIENCE_S = 60.0
CACHE_PATIENCE_S = 5.0


def check_config(settings: Settings, config: Path | None) -> Finding:
    """The settings were read; the files that they name can be, too."""
    check_files(settings)
    return Finding("config", True, str(config or "defaults"))


def check_address(settings: Settings) -> Finding:
    """Nothing else listens where the proxy is to."""
    shown, port = settings.server.url_host, settings.server.port
    bind(settings.server.host, port, patience_s=0).close()
    return Finding("listen", True, f"{shown}:{port} is free" if port else f"{shown}, any free port")


def check_home(settings: Settings, home: Path) -> Finding:
    """Where state, store and secret are: MEMPROXY_HOME is no setting, and without it all is somewhere else."""
    try:
        new = settings.state.backend == "sqlite" and not state_path(settings.state, home).exists()
        if (home / "secret").exists():  # the first start makes it
            secret(None, home)
    except OSError as error:
        remedy = "Run as the account that memproxy runs under, or set MEMPROXY_HOME."
        return Finding("home", False, f"{home} cannot be read ({error.strerror}). {remedy}")
    return Finding("home", None if new else True, f"{home}{': nothing was here before (MEMPROXY_HOME)' if new else ''}")


def check_users(settings: Settings) -> Finding:
    """Who gets memory; worth knowing where requests that name no user have none."""
    unnamed = default_user(settings.auth, settings.server) is not None
    return Finding("memory", unnamed or None, memory_for(settings))


async def check_upstream(upstream: UpstreamSettings, *, clients_key: bool = True) -> Finding:
    """Any HTTP answer means that it can be reached; only a client's key decides what it answers. It is asked the way
    that requests go: with its certificates, and through the environment's proxy where that is on. ``clients_key``
    False: clients' own keys do not go there, so that it must answer to what is configured.
    """
    shown = upstream.shown_url
    headers = {"authorization": f"Bearer {upstream.api_key.get_secret_value()}"} if upstream.api_key else {}
    proxy, tls = environment_proxy(upstream), tls_context(upstream.ca_file)
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, proxy=proxy, verify=tls) as client:
            answer = await client.get(f"{upstream.base_url.rstrip('/')}/models", headers=headers)
    except (httpx.HTTPError, ValueError, ImportError) as error:  # the last two: a proxy of a kind that is not known
        remedy = "Check upstream.base_url, the network and whether the upstream runs."
        return Finding("upstream", False, f"{shown} does not answer ({type(error).__name__}: {error}). {remedy}")
    if answer.status_code in {401, 403} and upstream.api_key:
        return Finding("upstream", False, f"{shown} refuses upstream.api_key ({answer.status_code}).")
    if answer.status_code in {401, 403} and not clients_key:
        remedy = "Set upstream.api_key: callers' keys do not go upstream in this auth.mode."
        return Finding("upstream", False, f"{shown} asks for a key ({answer.status_code}). {remedy}")
    return Finding("upstream", True, f"{shown} answers ({answer.status_code} for /models)")


async def check_tokens(settings: Settings) -> Finding:
    """The identity provider gives its keys."""
    try:
        keys = await count_signing_keys(settings.auth.jwt)
    except AuthUnavailable as error:
        remedy = "Check auth.jwt.jwks_url, auth.jwt.algorithms and the network; no token is taken without these keys."
        return Finding("tokens", False, f"{error.message} {remedy}")
    algorithms = ", ".join(settings.auth.jwt.algorithms)
    return Finding("tokens", True, f"auth.jwt.jwks_url answers; keys for {algorithms}: {keys}")


async def check_state(settings: Settings, home: Path) -> Finding:
    """The journal opens."""
    check_files(settings)
    state = make_state(settings, home)
    try:
        await state.open()
        sizes = await state.queue_sizes()
    finally:
        await state.close()
    waiting = sum(lane.get("waiting", 0) for lane in sizes.values())
    parked = sum(lane.get("parked", 0) for lane in sizes.values())
    return Finding("state", True, f"{state.where}: {waiting} rows waiting, {parked} parked")


async def check_store(settings: Settings, home: Path) -> Finding:
    """The store that the state knows opens, and was built with the configured embedder."""
    check_files(settings)
    state, store = make_state(settings, home), make_store(settings, home, make_embedder(settings, home))
    try:
        await state.open()
        await store.open(await state.get_meta(STORE_ID))
        points = await store.points()
    finally:
        await store.close()
        await state.close()
    return Finding("store", True, f"{settings.store.backend}: {points} points")


async def check_served(settings: Settings, holder: Finding) -> Finding:
    """The server that has the files has state and store open."""
    try:
        async with served(settings) as server:
            parts = await server.call("GET", READY_PATH)
    except AlreadyServed:
        return holder
    ill = [parts[part] for part in ("state", "store") if parts[part].startswith((DEGRADED, REFUSED))]
    return Finding("store", False, f"{holder.text} {ill[0]}") if ill else holder


async def check_cache(settings: Settings) -> Finding:
    """Redis answers, and is one that can be used. Without it all goes on, each replica by itself."""
    check_files(settings)
    server = redis_server(settings, _of_nobody)
    await server.start(CACHE_PATIENCE_S)
    state = server.state
    await server.close()
    if state == "ready":
        return Finding("cache", True, f"Redis at {server.where} answers")
    remedy = "Limits count for each process by itself meanwhile, and there is no working memory."
    return Finding("cache", False, f"Redis at {server.where}: {state.removeprefix('degraded: ')}. {remedy}")


async def _of_nobody() -> str:
    return "check"


async def check_embedder(settings: Settings, home: Path) -> Finding:
    """The model loads; without it recall goes on by words, which is a fault where a model was named by its place."""
    if settings.embedding.provider == "none":
        return Finding("embedder", None, "embedding.provider is none: recall goes by words alone")
    fetched = settings.embedding.provider == "fastembed" and settings.embedding.model_path is None
    # without a network the download's retries take 39 s, and end as this does at once
    embedder = make_embedder(
        settings, home, local_files_only=fetched and not await _reachable(os.environ.get("HF_ENDPOINT") or MODELS_FROM)
    )
    try:
        await embedder.start()
        for _ in range(int(EMBEDDER_PATIENCE_S / 0.1)):
            if embedder.state != "loading":
                break
            await asyncio.sleep(0.1)
        state = embedder.state
        if state == "ready":
            await embedder.embed_question("check")  # a service is asked, not only named
    except MemproxyError as error:
        state = f"unavailable: {error.message}"
    finally:
        await embedder.close()
    if state == "ready":
        return Finding("embedder", True, f"{embedder.name}, {embedder.dimension} dimensions")
    if settings.embedding.provider == "openai":
        remedy = "Check embedding.base_url, embedding.api_key and embedding.model; recall goes by words meanwhile."
        return Finding("embedder", False, f"{embedder.name}: {state}. {remedy}")
    if settings.embedding.model_path is not None:
        return Finding("embedder", False, f"{embedder.name}: {state}. Recall goes by words meanwhile.")
    return Finding("embedder", None, f"{embedder.name}: {state}. Recall goes by words until it is there.")


async def _reachable(address: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=DOWNLOAD_PATIENCE_S) as client:
            await client.head(address)
    except httpx.HTTPError:
        return False
    return True


async def findings(settings: Settings, home: Path, config: Path | None) -> list[Finding]:
    """Everything, checked one after the other; an error that a check ends in is what it found."""
    files = _held(settings, home)
    clients_key = settings.auth.mode == "passthrough"
    checks: dict[str, Callable[[], Finding | Awaitable[Finding]]] = {
        "config": partial(check_config, settings, config),
        "home": partial(check_home, settings, home),
        "memory": partial(check_users, settings),
        **({"listen": partial(check_address, settings)} if files is None else {}),
        "upstream": partial(check_upstream, settings.upstream, clients_key=clients_key),
    }
    if settings.auth.mode == "jwt" and settings.auth.jwt.jwks_url:
        checks["tokens"] = partial(check_tokens, settings)
    if files is None:
        checks |= {"state": partial(check_state, settings, home), "store": partial(check_store, settings, home)}
    elif files.works is None:
        checks["store"] = partial(check_served, settings, files)
    if settings.cache.backend == "redis":
        checks["cache"] = partial(check_cache, settings)
    checks["embedder"] = partial(check_embedder, settings, home)
    results = []
    for part, check in checks.items():
        try:
            finding = check()
            results.append(finding if isinstance(finding, Finding) else await finding)
        except MemproxyError as error:
            reference = next((f"as {earlier.part} says" for earlier in results if earlier.text == error.message), None)
            results.append(Finding(part, False, reference or error.message))
    return [*results, files] if files is not None and files.works is False else results


def _held(settings: Settings, home: Path) -> Finding | None:
    """Why the files of state and store are left alone: a server works with them, or they cannot be opened."""
    try:
        with locked(settings, home):
            return None
    except AlreadyServed as error:
        holder = error.message.partition(" Stop that one first")[0]
        return Finding("store", None, f"{holder} Its /readyz says how they are.")
    except ConfigError as error:
        return Finding("store", False, error.message)


@app.command()
def check(config: Config = None, tenant: Whole = None, *, json: Json = False) -> None:
    """Check configuration, upstream, state, store and embedder; each with a line and a remedy."""
    tell_of_all_tenants(tenant, "check")
    report = asyncio.run(findings(load_settings(config), home_dir(), config))
    works = not any(finding.works is False for finding in report)
    states = {True: "ok", None: "note", False: "fail"}
    rows = [{"part": finding.part, "state": states[finding.works], "text": finding.text} for finding in report]
    if json:
        show({"ok": works, "findings": rows}, (), as_json=True)
    marks = {True: "[green]ok[/]  ", None: "[yellow]note[/]", False: "[red]FAIL[/]"}
    console = Console()
    for finding in () if json else report:
        console.print(f"{marks[finding.works]} {finding.part:9}", end=" ", highlight=False)
        console.print(finding.text, markup=False, emoji=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if works else 1)
