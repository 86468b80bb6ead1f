"""What a start needs beside its settings, looked at before anything listens."""

from collections.abc import Awaitable

from memproxy.auth import make_authenticator
from memproxy.core.proxykey import KeyRecord
from memproxy.relay.tls import tls_context
from memproxy.settings import Settings


def check_files(settings: Settings) -> None:
    """Read the files that the settings name: certificates of the upstream, keys that tokens are signed with. A relay
    reads them when it starts; one that cannot would end and be started again for ever.

    Raises:
        ConfigError: one of them cannot be used; the message names its key in the settings.
    """
    tls_context(settings.upstream.ca_file)
    make_authenticator(settings.auth, settings.server, b"", _nobody)


def _nobody(_: str) -> Awaitable[KeyRecord | None]:
    raise AssertionError("only made, never asked")
