"""What the relay is put together from."""

from datetime import UTC, datetime
from pathlib import Path

from memproxy.auth import BrowserGuard, make_authenticator, who_is_remembered
from memproxy.auth.limits import Rates
from memproxy.ports import StateStore
from memproxy.relay.admission import Admission, MadeResponses
from memproxy.relay.app import Relay
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
from memproxy.tasks import TaskOwner


def make_relay(settings: Settings, state: StateStore, secret: bytes, engine_socket: Path) -> RelayProcess:
    """The relay over this state, not started yet."""
    tasks = TaskOwner("relay")
    shared = settings.server.workers > 1
    sessions = Sessions(state, shared=shared)
    engine = EngineClient(engine_socket, deadline_s=recall_seconds(settings))
    upstreams = Upstreams(settings.upstream, takes_client_key=settings.auth.mode == "passthrough")
    authenticator = make_authenticator(settings.auth, settings.server, secret, state.proxy_key, state.news, tasks=tasks)
    guard = BrowserGuard(settings.server)
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
    decider = Decider(
        secret=secret,
        authenticator=authenticator,
        sessions=sessions,
        gate=Gate(settings.gate),
        engine=engine,
        sticky=Sticky(state, tasks, repeats=settings.inject.sticky, deadline_s=settings.recall.deadline_ms / 1000),
        budgets=Budgets(settings),
        limits=_limits(settings, state, engine),
        state=state,
        tasks=tasks,
    )
    made, copies = MadeResponses(sessions, tasks), Copies()
    admission = Admission(settings, authenticator, made, upstreams.default.name)
    positions = Positions(settings.inject.position, state, tasks)
    chat = ChatHandler(
        settings=settings,
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
    )
    memory_api = MemoryApi(engine, authenticator, upstreams.default, max_body_bytes=settings.server.max_body_bytes)
    health = Health(engine, journal, settings.telemetry, who_is_remembered(settings.auth, settings.server))
    relay = Relay(
        chat=chat,
        passthrough=passthrough,
        fetched=FetchedResponses(
            passthrough=passthrough,
            authenticator=authenticator,
            sessions=sessions,
            journal=journal,
            upstream=upstreams.default,
            copies=copies,
        ),
        memory_api=memory_api,
        health=health,
        guard=guard,
        admission=admission,
        max_concurrent_requests=settings.server.max_concurrent_requests,
        intake=Intake(
            most_bytes=settings.server.max_held_bytes,
            most_under_way=max(1, settings.server.max_concurrent_requests // 2),
            work=work,
        ),
    )
    return RelayProcess(
        app=relay,
        state=state,
        engine=engine,
        upstreams=upstreams,
        journal=journal,
        positions=positions,
        health=health,
        tasks=tasks,
        work=work,
    )


def _limits(settings: Settings, state: StateStore, engine: EngineClient) -> ChatLimits:
    rates = Rates(settings.limits, state, lambda: datetime.now(UTC))
    bounds_memories = bool(settings.limits.tenant.memories or settings.limits.user.memories)
    return ChatLimits(rates, engine, bounds_memories=bounds_memories)
