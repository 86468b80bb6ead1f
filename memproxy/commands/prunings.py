"""Pruning from the command line: everybody, a tenant's users, or one user; by the running server where there is one."""

from typing import Any

from memproxy.commands.installation import installation, without_learning
from memproxy.core.protocol import PRUNE_PATH
from memproxy.settings import Settings


async def prune(settings: Settings, *, tenant: str | None, user: str | None, dry_run: bool) -> dict[str, int]:
    """What was pruned (or would be), by reason.

    Raises:
        MemproxyError: it could not be done; the message says why.
    """
    async with installation(without_learning(settings)) as here:
        if here.in_process is not None:
            await here.in_process.pause_pruning()
        if user is not None:
            body = {"user_id": user, "dry_run": dry_run}
            told: Any = await here.call("POST", "/v1/memory/prune", tenant=tenant, user=user, json=body)
            return dict(told["reasons"])
        params = {"dry_run": str(dry_run).lower(), "everybody": str(tenant is None).lower()}
        told = await here.call("POST", PRUNE_PATH, tenant=tenant, params=params)
        return dict(told["pruned"])
