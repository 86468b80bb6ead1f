"""What a run happens on: a temporary folder, the upstream, the load client, and the proxies that are started there."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from memproxy.errors import ConfigError
from tests.bench.children import Child, Nursery
from tests.bench.instance import Instance
from tests.bench.jobs import Job, Result
from tests.bench.machine import Pinning

ANSWER_S = 60.0
"""Within this, besides twice a job's own time, the client answers: all that it waits for has a limit, 40 s together."""


class LoadClient:
    def __init__(self, child: Child) -> None:
        self._child = child
        self._results = msgspec.json.Decoder(Result)

    async def run(self, job: Job) -> Result:
        """Do one job.

        Raises:
            ConfigError: the client ended or did not answer in time.
        """
        await self._child.write_line(msgspec.json.encode(job))
        try:
            return self._results.decode(await self._child.read_line(job.seconds * 2 + ANSWER_S))
        except ConfigError as error:
            raise ConfigError(f"{error.message} (Asked: {job.concurrency} at once, port {job.port}.)") from error


class Stage:
    """The running helpers of one run."""

    def __init__(
        self, folder: Path, nursery: Nursery, pinning: Pinning, *, upstream_port: int, client: LoadClient
    ) -> None:
        self.folder = folder
        self.nursery = nursery
        self.pinning = pinning
        self.upstream_port = upstream_port
        self.client = client
        self._instances: list[Instance] = []

    async def start_instance(self, name: str | None = None, **more: Any) -> Instance:
        """Start a proxy on an empty home, to be stopped with the stage at the latest; ``more`` as for `Instance.start`.

        Raises:
            ConfigError: it ended by itself or was not ready in time.
        """
        name = name or f"memproxy-{len(self._instances) + 1}"
        instance = await Instance.start(self.nursery, self.folder, name, upstream_port=self.upstream_port, **more)
        self._instances.append(instance)
        instance.pin(self.pinning)
        return instance

    async def close(self) -> None:
        """Stop everything in an orderly way."""
        for instance in self._instances:
            await instance.stop()
        await self.nursery.stop()


@asynccontextmanager
async def open_stage(pinning: Pinning) -> AsyncIterator[Stage]:
    """Start the upstream and the load client; nothing of it all is left afterwards, however the block ends.

    Raises:
        ConfigError: one of them did not start; the message holds the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="memproxy-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Nursery(folder) as nursery:
            upstream, port = await nursery.start_server("upstream")
            client = await nursery.start_module("client")
            pinning.pin_rest([upstream.pid, client.pid])
            stage = Stage(folder, nursery, pinning, upstream_port=port, client=LoadClient(client))
            try:
                yield stage
            finally:
                await stage.close()
