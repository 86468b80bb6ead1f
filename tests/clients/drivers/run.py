"""Use a client as ordered: one JSON object per line comes in, one per line goes out.

Runs in the clients' own environment: ``python -m tests.clients.drivers.run NAME``. An order is
``{"case", "base_url", "question"}``; the answer ``{"result": ...}`` holds what the client's user gets. An exception
that the client raises is a result too: its class, its status and its words.
"""

import asyncio
import importlib
import json
import os
import sys
import traceback
from typing import Any, TextIO

from tests.clients.drivers.case import Case, Driver


async def result_of(driver: Driver, case: Case) -> Any:
    seen: list[Any] = []
    try:
        if case.name in {"tools", "tools_stream"}:
            return await (driver.tools if case.name == "tools" else driver.tools_stream)(case)
        if case.name == "cancel":
            return await left_early(driver, case)
        if case.name not in {"stream", "broken", "stream_error"}:
            return await driver.chat(case)
        async for piece in driver.stream(case):
            seen.append(piece)  # noqa: PERF401 - what came before an exception counts
    except Exception as error:  # noqa: BLE001 - what a client raises is what its user gets
        traceback.print_exc()
        return {"seen": seen, "raised": described(error)}
    return seen


async def left_early(driver: Driver, case: Case) -> list[Any]:
    """The pieces up to the one at which the user's task is cancelled, as a web application does with its own."""
    seen: list[Any] = []
    enough = asyncio.Event()

    async def read() -> None:
        async for piece in driver.stream(case):
            if not enough.is_set():
                seen.append(piece)
            if "blue" in json.dumps(piece):
                enough.set()

    reading = asyncio.get_running_loop().create_task(read())
    await enough.wait()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return seen


def described(error: BaseException) -> list[Any]:
    """An exception and what it came from, without addresses."""
    found: list[Any] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < 4:
        found.append([type(cause).__name__, getattr(cause, "status_code", None), str(cause)[:2000]])
        cause = cause.__cause__
    return found


async def serve(driver: Driver, out: TextIO) -> None:
    """Carry out orders until there are no more."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        result = await result_of(driver, Case(**json.loads(line)))
        out.write(json.dumps({"result": result}) + "\n")
        out.flush()


def main() -> None:
    """Some clients print: what they print goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, variant = sys.argv[1].partition("/")
    driver: Driver = importlib.import_module(f"tests.clients.drivers.{module}").make(variant)
    asyncio.run(serve(driver, out))


if __name__ == "__main__":
    main()
