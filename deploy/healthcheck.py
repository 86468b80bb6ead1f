"""Asks ``/healthz`` of the server in this container; ends with 0 where it answers 200.

It runs every ten seconds: only the standard library's socket is imported, no site packages (``python -I -S``).
"""

import os
import socket
import sys

PATIENCE_S = 2.0
ASKED = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def status(port: int) -> str:
    """The status line, or why there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            connection.sendall(ASKED)
            return connection.recv(64).partition(b"\r\n")[0].decode("latin-1") or "the connection was closed"
    except OSError as error:
        return f"nothing answers at port {port}: {error}"


if __name__ == "__main__":
    found = status(int(os.environ.get("MEMPROXY__SERVER__PORT") or "8484"))
    sys.stdout.write(f"{found}\n")
    sys.exit(not found.startswith("HTTP/1.1 200"))
