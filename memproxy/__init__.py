"""memproxy: long-term memory for any application that speaks an OpenAI-compatible chat API.

*A request borrows memory on its way up; the answer pays it back on its way down, later.*

    request  client → app → identity → session → gate → rewrite → recall → inject → upstream → relay ─┬→ client
                                                                                                     └→ capture
    learning capture → journal (durable) → worker → index turns → extract → reconcile → plan (durable) → apply → store

Nothing on the first line waits for anything on the second; the second can be killed at any arrow and resumes.

The request's line is `relay` (process one; `handler` has its steps) and `recall`, the learning line `engine` (process
two) and `learn`. docs/architecture.md follows both file by file, and says what every room is for.
"""

import os

# Before NumPy is imported: the products of a recall are so small that a second thread mostly waits for the first, and
# keeps a processor busy with it, which others need (docs/decisions/0018). An explicit setting wins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
