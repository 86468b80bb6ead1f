"""memproxy: long-term memory for any application that speaks an OpenAI-compatible chat API.

*A request borrows memory on its way up; the answer pays it back on its way down, later.*

    request  client → app → identity → session → gate → rewrite → recall → inject → upstream → relay ─┬→ client
                                                                                                     └→ capture
    learning capture → journal (durable) → worker → index turns → extract → reconcile → plan (durable) → apply → store

Nothing on the first line waits for anything on the second; the second can be killed at any arrow and resumes.

Where each step lives:

    relay/     process one, the request in order: routing, handler, decide, session_blocks, upstream, stream, capture
    engine/    process two: its parts, and the routes that the relay and the memory API reach it by
    recall/    rewrite → search → ranking by stages → relations, time, rerank → floor → budget → the block
    learn/     triggers, worker, extraction (by a model, or by rules/ without one), reconciliation, apply; reindex
    api/       the memory API, the palace, receipts, the OpenAPI description
    auth/      whose memory it is: the key passed through, proxy keys, tokens of an identity provider
    stores/    Qdrant Edge, a Qdrant server, PostgreSQL, SQLite
    models/    chat models, embedders
    wire/      chat completions and responses, server-sent events, compressed bodies, splicing
    core/      pure values and functions
    settings/  the schema of the configuration, and how it is loaded
    ports/     the seams between all of these; wiring/ chooses what stands behind them
    serve/     the supervisor, which starts relay and engine, restarts them, and writes down the order of shutdown
    commands/  the command line, each command beside its work; demo/, importers/
    evals/     retrieval, the gate, answers and extraction, measured
"""

import os

# Before NumPy is imported: the products of a recall are so small that a second thread mostly waits for the first, and
# keeps a processor busy with it, which others need (docs/decisions/0018). An explicit setting wins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
