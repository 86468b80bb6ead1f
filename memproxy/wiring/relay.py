"""What the relay is put together from."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from memproxy.auth import Authenticator, BrowserGuard, make_authenticator, who_is_remembered
from memproxy.auth.limits import Rates
from memproxy.ports import StateStore
from memproxy.relay.admission import Admission, MadeResponses
from memproxy.relay.app import Handlers, Relay
from memproxy.relay.budget import Budgets
from memproxy.relay.capture import Journal
from memproxy.relay.decide import Decider
from memproxy.relay.engine import EngineClient, recall_seconds
from memproxy.relay.fetched import FetchedResponses
from memproxy.relay.gate import Gate
from memproxy.relay.handler import ChatHandler
from memproxy.relay.health import Health
from memproxy.relay.intake import Intake
from memproxy.relay.limits import ChatLimits
from memproxy.relay.memory_api import MemoryApi
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.position import Positions
from memproxy.relay.process import RelayProcess
from memproxy.relay.sessions import Sessions
from memproxy.relay.sticky import Sticky
from memproxy.relay.stream import Copies
from memproxy.relay.upstreams import Upstreams
from memproxy.relay.work import BodyWork
from memproxy.settings import Settings
from memproxy.settings.home import state_path, store_path
from memproxy.tasks import TaskOwner


def make_relay(
    settings: Settings, state: StateStore, secret: bytes, engine_socket: Path, home: Path | None = None
) -> RelayProcess:
    """The relay over this state, not started yet. ``home`` is the folder whose disk the metrics tell of."""
    tasks = TaskOwner("relay")
    shared = settings.server.workers > 1
    sessions = Sessions(state, shared=shared)
    engine = EngineClient(engine_socket, deadline_s=recall_seconds(settings))
    upstreams = Upstreams(settings.upstream, takes_client_key=settings.auth.mode == "passthrough")
    work = BodyWork()
    journal = Journal(
        state,
        sessions,
        engine,
        commit_timeout_s=settings.state.commit_timeout_ms / 1000,
        redact_kinds=frozenset(settings.privacy.redact),
        work=work,
        shared=shared,
    )
    passthrough = Passthrough(upstreams.default, tasks)
    gate, budgets = Gate(settings.gate), Budgets(settings)
    sticky = Sticky(state, tasks, repeats=settings.inject.sticky, deadline_s=settings.recall.deadline_ms / 1000)
    made, copies = MadeResponses(sessions, tasks), Copies()
    positions = Positions(settings.inject.position, state, tasks)

    def authenticated(now: Settings) -> Authenticator:
        return make_authenticator(now.auth, now.server, secret, state.proxy_key, state.news, tasks=tasks)

    def handlers(now: Settings, authenticator: Authenticator) -> Handlers:
        admission = Admission(now, authenticator, made, upstreams.default.name)
        decider = Decider(
            secret=secret,
            authenticator=authenticator,
            sessions=sessions,
            gate=gate,
            engine=engine,
            sticky=sticky,
            budgets=budgets,
            limits=_limits(now, state, engine),
            state=state,
            remembered=who_is_remembered(now.auth, now.server),
        )
        return Handlers(
            chat=ChatHandler(
                settings=now,
                decider=decider,
                upstreams=upstreams,
                journal=journal,
                passthrough=passthrough,
                positions=positions,
                engine=engine,
                tasks=tasks,
                admission=admission,
                made=made,
                work=work,
                copies=copies,
            ),
            fetched=FetchedResponses(
                passthrough=passthrough,
                authenticator=authenticator,
                sessions=sessions,
                journal=journal,
                upstream=upstreams.default,
                copies=copies,
            ),
            memory_api=MemoryApi(engine, authenticator, upstreams.default, max_body_bytes=now.server.max_body_bytes),
            guard=BrowserGuard(now.server),
            admission=admission,
            max_concurrent_requests=now.server.max_concurrent_requests,
        )

    before, authenticator = settings, authenticated(settings)
    remembered = who_is_remembered(settings.auth, settings.server)
    disks = _disks(settings, home) if home is not None else {}
    health = Health(engine, journal, state, settings.telemetry, remembered, disks=disks)
    intake = Intake(work=work, **_bounds(settings))
    app = Relay(handlers=handlers(settings, authenticator), passthrough=passthrough, health=health, intake=intake)

    def take(now: Settings) -> None:
        nonlocal before, authenticator
        files = now.auth.mode == "jwt" and now.auth.jwt.jwks_url is None  # they may say something else by now
        if files or (now.auth, now.server) != (before.auth, before.server):  # else what it has looked up stays
            authenticator = authenticated(now)
        app.handlers = handlers(now, authenticator)
        health.take(now.telemetry, who_is_remembered(now.auth, now.server))
        intake.bound(**_bounds(now))
        before = now

    return RelayProcess(
        app=app,
        state=state,
        engine=engine,
        upstreams=upstreams,
        journal=journal,
        positions=positions,
        health=health,
        tasks=tasks,
        work=work,
        take=take,
    )


class _Bounds(TypedDict):
    most_bytes: int
    most_under_way: int


def _bounds(settings: Settings) -> _Bounds:
    server = settings.server
    return {"most_bytes": server.max_held_bytes, "most_under_way": max(1, server.max_concurrent_requests // 2)}


def _disks(settings: Settings, home: Path) -> dict[str, Path]:
    """The folders that this machine's disks must have room for: of those within the home it is the same room."""
    places = {"state": state_path(settings.state, home).parent}
    if settings.store.backend == "edge":
        places["store"] = store_path(settings.store, home)
    elsewhere = {name: folder for name, folder in places.items() if not folder.is_relative_to(home)}
    return {"home": home, **elsewhere}


def _limits(settings: Settings, state: StateStore, engine: EngineClient) -> ChatLimits:
    rates = Rates(settings.limits, state, lambda: datetime.now(UTC))
    bounds_memories = bool(settings.limits.tenant.memories or settings.limits.user.memories)
    return ChatLimits(rates, engine, bounds_memories=bounds_memories)
