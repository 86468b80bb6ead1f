"""The isolation fuzz as a command: ``python -m tests.isolation.fuzz --operations 100000 --tenants 20 --users 20``."""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.isolation.people import MODES, Mode
from tests.isolation.run import fuzz
from tests.isolation.watching import Watch


def main() -> None:
    """Run, and print what was seen; ends with an error at the first leak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000, help="in all, over the modes (100000)")
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--users", type=int, default=20, help="of each tenant")
    parser.add_argument("--seed", type=int, default=1, help="what is chosen")
    parser.add_argument("--modes", default=",".join(MODES), help="of identity, by commas")
    options = parser.parse_args()
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    each = options.operations // len(modes)
    with tqdm(total=each * len(modes), unit="op") as bar:
        for mode in modes:
            bar.set_description(mode)
            began = time.monotonic()
            watch = _run(mode, each, options, lambda: bar.update(1) and None)
            bar.write(json.dumps({"mode": mode, "operations": each, **_told(watch, time.monotonic() - began)}, indent=1))


def _run(mode: Mode, operations: int, options: argparse.Namespace, step: Any) -> Watch:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(
            fuzz(
                mode,
                Path(folder),
                operations=operations,
                tenants=options.tenants,
                users=options.users,
                seed=options.seed,
                step=step,
            )
        )


def _told(watch: Watch, seconds: float) -> dict[str, Any]:
    return {
        "seconds": round(seconds),
        "requests": sum(watch.statuses.values()),
        "counts": dict(sorted(watch.counts.items())),
        "time of another's over time of nothing": {
            what: {"pairs": pairs, "ratio": round(ratio, 2)} for what, (pairs, ratio) in watch.ratios().items()
        },
        "statuses": dict(sorted(watch.statuses.items())),
    }


if __name__ == "__main__":
    main()
