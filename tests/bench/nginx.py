"""nginx as a relay, when it is installed: the yardstick that everybody knows."""

import asyncio
import os
import shutil
from pathlib import Path

from memproxy.demo.story import free_port
from tests.bench.children import Child, Nursery

START_LIMIT_S = 10.0
_POLL_S = 0.02

_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream scripted {{
        server 127.0.0.1:{upstream_port};
        keepalive 256;
        keepalive_requests 100000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://scripted;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def find() -> str | None:
    """The program, on the path or where Debian puts it."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


async def start(program: str, nursery: Nursery, folder: Path, upstream_port: int) -> tuple[Child, int]:
    """Start it as a relay to the upstream with one worker; the process and its port.

    Raises:
        ConfigError: it cannot be started, or does not listen in time.
    """
    home, port = folder / "nginx", free_port()
    home.mkdir()
    # Started by root, its worker would be somebody who may not read the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    text = _CONFIG.format(folder=home, user=user, port=port, upstream_port=upstream_port)
    (home / "nginx.conf").write_text(text, encoding="utf-8")
    command = [program, "-p", str(home), "-e", "stderr", "-c", str(home / "nginx.conf")]
    child = await nursery.start("nginx-relay", command)
    try:
        await asyncio.wait_for(_listening(child, port), START_LIMIT_S)
    except TimeoutError as error:
        raise child.trouble(f"did not listen within {START_LIMIT_S:.0f} s") from error
    return child, port


async def _listening(child: Child, port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if not child.running:
                raise child.trouble("ended by itself") from None
            await asyncio.sleep(_POLL_S)
        else:
            writer.close()
            return
