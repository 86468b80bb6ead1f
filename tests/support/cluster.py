"""Several installations of `memproxy serve` on one PostgreSQL, as several machines would be: homes of their own, one
secret.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memproxy.commands import keys
from tests.support.postgres import PostgresServer
from tests.support.proxy import Config, Proxy, base_config, free_port, memproxy, merged


@dataclass
class Cluster:
    """The replicas, and a key of the application that names its users."""

    server: PostgresServer
    url: str
    key: str
    replicas: list[Proxy] = field(default_factory=list)

    def new_key(self, at: Proxy, *arguments: str) -> str:
        """A key that the command line makes at one of them."""
        done = memproxy(at.home, "keys", "new", "--config", str(at.config_file), *arguments, extra=at.extra_environment)
        assert not done.returncode, done.stderr
        return done.stdout.strip()


def cluster_config(upstream_url: str, url: str, changes: Mapping[str, Any]) -> tuple[str, Config]:
    """The key of an application, and what each replica is configured with, but for its port."""
    permissions = ["chat", "memory:read", "memory:write", "act_as_user"]
    key, record = keys.make_key(tenant="acme", permissions=permissions)
    entry = {"id": record.id, "hash": record.hash, "tenant": "acme", "permissions": permissions}
    shared = {
        "state": {"backend": "postgres", "url": url},
        "store": {"backend": "postgres", "url": url},
        "upstream": {"api_key": "sk-of-the-operator"},
        "auth": {"mode": "keys", "keys": [entry]},
    }
    return key, merged(merged(base_config(upstream_url, 0), shared), changes)


@asynccontextmanager
async def running_cluster(
    server: PostgresServer,
    upstream_url: str,
    folder: Path,
    changes: Mapping[str, Any],
    own: Sequence[Mapping[str, Any]],
    *,
    environments: Sequence[Mapping[str, str]] = (),
    clean: bool = True,
) -> AsyncIterator[Cluster]:
    """As many replicas as there are ``own`` changes of their configuration, started at once; ``clean`` fails where one
    logs a traceback.
    """
    url, secret = server.database(), secrets.token_hex(32)
    key, config = cluster_config(upstream_url, url, changes)
    cluster = Cluster(server, url, key)
    async with AsyncExitStack() as held:
        for place, change in enumerate(own):
            extra = {"MEMPROXY_SECRET": secret, **(environments[place] if environments else {})}
            port = {"server": {"port": free_port()}}
            proxy = Proxy(folder / f"home-{place}", merged(merged(config, port), change), extra)
            proxy.launch()
            held.push_async_callback(proxy.stop)
            cluster.replicas.append(proxy)
        for proxy in cluster.replicas:
            await proxy.served()
        yield cluster
    for proxy in cluster.replicas if clean else ():
        proxy.assert_clean()
