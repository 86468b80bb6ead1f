"""A PostgreSQL server with pgvector for tests: one a test process, with a database of its own for whoever asks.

The programs are those of the package `pgserver`. ``MEMPROXY_TEST_POSTGRES_URL`` names another server instead, whose
user may make databases and extensions.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg
import pytest
from psycopg import sql

from tests.support.proxy import free_port

ADMIN = "memproxy"
USER = "app"
"""Owns the databases of tests, and is no superuser: row-level security holds for it."""

_START_S = 60


def binaries() -> Path | None:
    """The folder of the server's programs; None where the package is not installed."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


@dataclass
class PostgresServer:
    """A server that tests may stop and start."""

    folder: Path
    programs: Path
    port: int

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """Make the server's files, and its users."""
        self._run("initdb", "--auth", "trust", "--username", ADMIN, "--encoding", "UTF8", "--no-sync")
        self.start()
        with psycopg.connect(self.url("postgres", ADMIN), autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {USER} LOGIN")

    def start(self, *, fsync: str = "off") -> None:
        """Start it, and wait until it answers."""
        options = (
            f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c max_connections=200 -c fsync={fsync}"
        )
        log = str(self.folder / "log")
        self._run("pg_ctl", "-w", "-t", str(_START_S), "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: ``fast`` ends connections, ``immediate`` is as a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def pause(self) -> None:
        """The server hangs: connections are there and nothing is answered."""
        # The first process first: it starts no other then, and whatever ends meanwhile keeps its number.
        first = psutil.Process(self.first_process())
        first.suspend()
        for child in first.children():
            child.suspend()

    def go_on(self) -> None:
        """After `pause`."""
        first = psutil.Process(self.first_process())
        for child in first.children():
            child.resume()
        first.resume()

    def first_process(self) -> int:
        """The process whose children all others are."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def database(self) -> str:
        """Make an empty database with the extension, and answer its address."""
        name = f"t_{uuid4().hex}"
        with psycopg.connect(self.url("postgres", ADMIN), autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(USER)))
        with psycopg.connect(self.url(name, ADMIN), autocommit=True) as admin:
            admin.execute("CREATE EXTENSION vector")
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        user = _unprivileged()
        done = subprocess.run(
            command,
            user=user,
            extra_groups=[] if user is not None else None,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,  # the server keeps what it inherits
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            log = self.folder / "log"
            told = log.read_text() if log.exists() else (done.stderr or b"").decode()
            raise RuntimeError(f"{program} failed: {told[-2000:]}")


def _unprivileged() -> str | None:
    """Whom a server runs as: PostgreSQL refuses to be root."""
    return "nobody" if os.geteuid() == 0 else None


def _reachable(programs: Path, user: str, folder: Path) -> Path:
    """The programs where ``user`` may run them: a copy, where they lie in a folder that is somebody else's."""
    seen = subprocess.run(
        ["/usr/bin/env", "test", "-x", programs / "postgres"], user=user, extra_groups=[], check=False
    )
    if not seen.returncode:
        return programs
    site = programs.parents[2]
    for part in ("pgserver/pginstall", "pgserver.libs"):  # the libraries are found by where they lie
        shutil.copytree(site / part, folder / part, symlinks=True)
    return folder / "pgserver" / "pginstall" / "bin"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server of one's own, gone afterwards; skips where there is none."""
    programs = binaries()
    if programs is None:
        pytest.skip("the package pgserver, which holds a PostgreSQL server, is not installed")
    folder = Path(tempfile.mkdtemp(prefix="memproxy-postgres-"))
    server = PostgresServer(folder, programs, free_port())
    try:
        if (user := _unprivileged()) is not None:
            server.programs = _reachable(programs, user, folder)
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        server.make()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Databases:
    """Makes empty databases with the extension `vector`, on a server of this process or the one that is named."""

    def __init__(self, server: PostgresServer | str) -> None:
        self.server = server

    def new(self) -> str:
        """Make one, and answer its address."""
        if isinstance(self.server, PostgresServer):
            return self.server.database()
        name = f"t_{uuid4().hex}"
        with psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        address = psycopg.conninfo.make_conninfo(self.server, dbname=name)
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
        return address


@contextmanager
def databases() -> Iterator[Databases]:
    """Databases on the server that ``MEMPROXY_TEST_POSTGRES_URL`` names, else on one of one's own."""
    given = os.environ.get("MEMPROXY_TEST_POSTGRES_URL")
    if given:
        yield Databases(given)
        return
    with postgres_server() as server:
        yield Databases(server)
