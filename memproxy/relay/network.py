"""How an upstream is reached from this machine: the proxy between, and the certificates that are trusted."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from memproxy.errors import ConfigError
from memproxy.settings import UpstreamSettings, is_loopback


def tls_context(ca_file: Path | None) -> ssl.SSLContext | bool:
    """Certificates are always verified; a private authority is trusted beside the public ones.

    Raises:
        ConfigError: the file cannot be read or holds no certificate.
    """
    if ca_file is None:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"upstream.ca_file: {ca_file} cannot be used ({error}); name a PEM file") from error
    return context


def environment_proxy(upstream: UpstreamSettings) -> str | None:
    """The proxy that the environment names for this upstream, by the usual rules (`urllib.request`); None: no proxy.
    Addresses of this machine are never reached through one.

    aiohttp's own ``trust_env`` is not used: it would add passwords of a ``.netrc`` file to requests.
    """
    address = urlsplit(upstream.base_url)
    if not upstream.environment_proxy or address.hostname is None or is_loopback(address.hostname):
        return None
    return None if proxy_bypass(address.netloc.rpartition("@")[2]) else getproxies().get(address.scheme)
