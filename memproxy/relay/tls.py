"""Which certificates of the upstream are trusted."""

import ssl
from pathlib import Path

from memproxy.errors import ConfigError


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
