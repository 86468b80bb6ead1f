"""The benchmark suite: ``python -m tests.bench`` (``make bench``).

    client process ──┬──────────────────────────────→ scripted upstream process      direct
                     ├── nginx, bare relay ─────────→        "                       what a hop costs at least
                     └── memproxy serve ────────────→        "                       ours, memory off and on

`suite` starts all of these on 127.0.0.1, gives every target its turn in every round, so that noise hits all alike, and
stops them again. `calls` measures requests and streams, `recall` the memory API, `report` shows and writes the figures.
What each figure means: docs/benchmarks.md.
"""

import memproxy  # noqa: F401 - before NumPy: it sets how many threads a product of matrices takes
