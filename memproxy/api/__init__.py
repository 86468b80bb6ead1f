"""The memory API: one decorated function a call (`calls.call`), beside the models of what it takes and answers.

A call's way: `routes` finds it by path and method, checks caller, query and body (`http`), answers a repeated one
(`idempotency`), makes it, and writes its answer with its ETag. `openapi` describes the same functions.
Every write is a journal row first (`context.Backends.write`), then waited for: 201 or 200 when it is applied, 202 with
``x-memproxy-write: queued`` when the store is away (it is applied when the store is back). Reads answer 503 with
``retry-after`` meanwhile. What the calls mean in detail: docs/api.md.
"""
