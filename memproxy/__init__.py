"""memproxy: long-term memory for any application that speaks an OpenAI-compatible chat API.

*A request borrows memory on its way up; the answer pays it back on its way down, later.*

    request  client → app → identity → session → gate → rewrite → recall → inject → upstream → relay ─┬→ client
                                                                                                     └→ capture
    learning capture → journal (durable) → worker → index turns → extract → reconcile → plan (durable) → apply → store

Nothing on the first line waits for anything on the second; the second can be killed at any arrow and resumes.

Where each step lives:

    relay/     process one, the request in order: app, handler, sessions, gate, inject, upstream, stream, capture
    engine/    process two: the routes that the relay and the memory API reach it by
    recall/    rewrite → search → fusion → floor → budget → the block
    learn/     triggers, worker, extraction, reconciliation, apply
    api/       the memory API
    stores/    Qdrant Edge, a Qdrant server, SQLite
    models/    chat models, embedders
    wire/      the chat format, server-sent events, splicing
    core/      pure values and functions
    ports.py   the seams between all of these; wiring.py chooses what stands behind them
    supervisor.py starts relay and engine, restarts them, and writes down the order of shutdown
"""

__version__ = "0.1.0"
