"""HTTP clients of the tests, which speak without TLS to servers of this machine."""

import ssl
from typing import Any

import httpx

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. A client without it reads the public authorities when it is made, 18 ms of processor time each; tests
make thousands.
"""


def plain_client(**options: Any) -> httpx.AsyncClient:
    """A client for ``http://`` alone, through no proxy; ``options`` are `httpx.AsyncClient`'s."""
    return httpx.AsyncClient(verify=NO_TLS, trust_env=False, **options)
