"""What the relay is put together from."""

from collections.abc import Sequence
from pathlib import Path

from memproxy.auth.browser import BrowserGuard
from memproxy.auth.experiment import Experiment
from memproxy.auth.identity import who_is_remembered
from memproxy.auth.modes import Authenticator, make_authenticator
from memproxy.ports import StateStore
from memproxy.relay.admission import Admission, MadeResponses
from memproxy.relay.bodies import BodyWork
from memproxy.relay.capture import CaptureJournal
from memproxy.relay.conversation import Conversations
from memproxy.relay.decide import Budgets, ChatLimits, Decider, Gate
from memproxy.relay.engine_client import recall_seconds
from memproxy.relay.engines import Engines
from memproxy.relay.handler import MemoryHandler
from memproxy.relay.health import Health
from memproxy.relay.in_chat import InChat
from memproxy.relay.intake import Intake
from memproxy.relay.memory_api import MemoryApi
from memproxy.relay.memory_tools import MemoryTools
from memproxy.relay.passthrough import FetchedResponses, Passthrough
from memproxy.relay.refusal import Positions
from memproxy.relay.request import Hangups
from memproxy.relay.routing import Handlers, Parts, Relay
from memproxy.relay.session_blocks import BlockKeeper
from memproxy.relay.session_lookup import Sessions
from memproxy.relay.stream import Copies
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings
from memproxy.settings.home import state_path, store_path
from memproxy.tasks import TaskOwner
from memproxy.traces import Traces
from memproxy.wiring.cache import make_caches


def make_relay(
    settings: Settings,
    state: StateStore,
    secret: bytes,
    engine_sockets: Sequence[Path],
    home: Path | None = None,
    *,
    traces: Traces | None = None,
) -> Relay:
    """The relay over this state, not started yet. ``engine_sockets``: where engines listen, its own first. ``home`` is
    the folder whose disk the metrics show; ``traces`` makes spans of requests.
    """
    tasks = TaskOwner("relay")
    caches = make_caches(settings, state)
    sessions = Sessions(state, shared=settings.shares_state, changes=caches.changes)
    engine = Engines(engine_sockets, deadline_s=recall_seconds(settings))
    upstream = Upstream(settings.upstream, takes_client_key=settings.auth.mode == "passthrough")
    work, hangups, copies = BodyWork(), Hangups(tasks), Copies()
    journal = CaptureJournal(state, sessions, engine, work, settings)
    passthrough = Passthrough(upstream, hangups)
    gate, budgets = Gate(settings.gate), Budgets(settings)
    block_keeper = BlockKeeper(state, tasks, settings)
    conversations = Conversations(settings, state, engine, caches.working or state)
    made_responses = MadeResponses(sessions, tasks)
    tools = MemoryTools(engine, tasks, settings)
    positions = Positions(settings.inject.position, state, tasks)
    experiment = Experiment(settings.experiment.holdout, secret, state)
    previous: Settings | None = None
    authenticator: Authenticator | None = None

    def handlers(now: Settings) -> Handlers:
        """The handlers by these settings; the authenticator stays, with what it has looked up, where they allow it."""
        nonlocal previous, authenticator
        reads_files = now.auth.mode == "jwt" and now.auth.jwt.jwks_url is None  # they may have changed
        changed = previous is None or (now.auth, now.server) != (previous.auth, previous.server)
        if authenticator is None or reads_files or changed:
            authenticator = make_authenticator(now.auth, now.server, secret, state.proxy_key, state.news, tasks=tasks)
        previous = now
        admission = Admission(now, authenticator, made_responses, upstream.name)
        decider = Decider(
            secret=secret,
            authenticator=authenticator,
            sessions=sessions,
            gate=gate,
            engine=engine,
            block_keeper=block_keeper,
            conversations=conversations,
            budgets=budgets,
            limits=ChatLimits(now.limits, caches.usage, engine),
            state=state,
            experiment=experiment,
            in_chat=InChat(engine, now),
            tools=tools,
            memory_for=who_is_remembered(now.auth, now.server),
        )
        return Handlers(
            chat=MemoryHandler(
                settings=now,
                decider=decider,
                upstream=upstream,
                journal=journal,
                passthrough=passthrough,
                positions=positions,
                hangups=hangups,
                admission=admission,
                work=work,
                copies=copies,
                traces=traces,
            ),
            fetched=FetchedResponses(
                passthrough=passthrough,
                authenticator=authenticator,
                sessions=sessions,
                journal=journal,
                upstream=upstream,
                copies=copies,
            ),
            memory_api=MemoryApi(engine, authenticator, upstream, hangups, now.server.max_body_bytes, caches.changes),
            guard=BrowserGuard(now.server),
            admission=admission,
            max_concurrent_requests=now.server.max_concurrent_requests,
        )

    parts = Parts(
        state=state,
        engine=engine,
        upstream=upstream,
        journal=journal,
        positions=positions,
        passthrough=passthrough,
        health=Health(
            engine=engine,
            journal=journal,
            state=state,
            settings=settings,
            upstream=upstream,
            disks=_disks(settings, home) if home is not None else {},
            shared=caches.server,
        ),
        shared=caches.server,
        intake=Intake(settings.server, work),
        work=work,
        tasks=tasks,
        experiment=experiment,
    )
    return Relay(parts, settings, handlers)


def _disks(settings: Settings, home: Path) -> dict[str, Path]:
    """The folders whose disks must have room, by name; a folder within the home is on its disk."""
    places = {"state": state_path(settings.state, home).parent}
    if settings.store.backend == "edge":
        places["store"] = store_path(settings.store, home)
    elsewhere = {name: folder for name, folder in places.items() if not folder.is_relative_to(home)}
    return {"home": home, **elsewhere}
