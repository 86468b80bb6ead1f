"""``memproxy top``: what a running server does, in the terminal: its ``/metrics`` and ``/readyz``, again and again."""

import contextlib
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import msgspec
import typer

from memproxy.commands.options import Config, Json, Whole, quiet_settings, show, tell_of_all_tenants
from memproxy.errors import ConfigError, MemproxyError
from memproxy.serve.instance import AlreadyServed, locked
from memproxy.settings import Settings
from memproxy.settings.home import home_dir

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()

PATIENCE_S = 5.0
"""How long the server may take to answer."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what it is replaced by is looked at, not served

Labels = tuple[tuple[str, str], ...]


class Scrape(msgspec.Struct, frozen=True):
    """One look: every sample by name and labels, when it was taken, and what ``/readyz`` says."""

    at: float
    samples: dict[str, dict[Labels, float]]
    status: str
    parts: dict[str, str]

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The sums of a metric's samples by these labels."""
        sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for sample, value in self.samples.get(name, {}).items():
            values = dict(sample)
            sums[tuple(values.get(label, "") for label in labels)] += value
        return dict(sums)


class Server:
    """A running server's two pages."""

    def __init__(self, settings: Settings, url: str | None) -> None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ConfigError(f"--url {url}: must be an address that starts with http:// or https://.")
        host = _ANY_ADDRESS.get(settings.server.host, settings.server.url_host)
        self.url = (url or f"http://{host}:{_port(settings)}").rstrip("/")
        token = settings.telemetry.metrics_token
        self._headers = {"authorization": f"Bearer {token.get_secret_value()}"} if token is not None else {}
        self._client = httpx.Client(timeout=PATIENCE_S, trust_env=False)

    def look(self) -> Scrape:
        """What it says now.

        Raises:
            MemproxyError: it does not answer, or not with these pages; the message says what to do.
        """
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - for this command alone

        try:
            metrics = self._client.get(f"{self.url}/metrics", headers=self._headers)
            ready = self._client.get(f"{self.url}/readyz")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise MemproxyError(
                f"No server answers at {self.url} ({type(error).__name__}). Start `memproxy serve`, or name the "
                "address of the one that runs with --url."
            ) from error
        if metrics.status_code == 401:
            raise MemproxyError(
                f"{self.url}/metrics asks for a token: give the configuration that has telemetry.metrics_token "
                "(--config)."
            )
        if metrics.status_code == 404:
            raise MemproxyError(f"{self.url} serves no metrics: telemetry.metrics is off there, or it is no memproxy.")
        try:
            metrics.raise_for_status()
            readiness = ready.json()
            families = text_string_to_metric_families(metrics.text)
            samples: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
            for sample in (sample for family in families for sample in family.samples):
                samples[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
            return Scrape(time.monotonic(), samples, str(readiness["status"]), dict(readiness["parts"]))
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            raise MemproxyError(f"What answers at {self.url} is no memproxy ({type(error).__name__}).") from error

    def close(self) -> None:
        self._client.close()


def _port(settings: Settings) -> int:
    """Where the server of this installation listens, whatever its command line said; where none runs, the configured
    port.
    """
    home = home_dir()
    try:
        if home.exists():  # a look makes no folder
            with locked(settings, home):
                pass
    except AlreadyServed as server:
        return server.port or settings.server.port
    except ConfigError:  # another account's files: its server may answer all the same
        pass
    return settings.server.port


def quantiles(now: Scrape, previous: Scrape | None, name: str) -> dict[str, float | None]:
    """p50, p95 and p99 in milliseconds of a histogram of seconds, between two looks or since the start; None of
    nothing. Within a bucket values are taken to lie evenly, as Prometheus does.
    """
    earlier = previous.by(f"{name}_bucket", "le") if previous is not None else {}
    counts = sorted(
        (float(le), value - earlier.get((le,), 0.0)) for (le,), value in now.by(f"{name}_bucket", "le").items()
    )
    total = counts[-1][1] if counts else 0.0

    def at(share: float) -> float | None:
        lower, below = 0.0, 0.0
        for upper, count in counts:
            if total and count >= share * total:
                inside = (share * total - below) / (count - below) if count > below else 1.0
                return round(1000 * (lower if upper == float("inf") else lower + (upper - lower) * inside), 2)
            lower, below = upper, count
        return None

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99)}


def view(server: str, now: Scrape, previous: Scrape | None) -> dict[str, Any]:
    """What is shown: totals since the start, and with an earlier look what came since by second (``per_s``)."""

    def counted(name: str, *labels: str) -> dict[str, dict[str, float]]:
        seconds = now.at - previous.at if previous is not None else 0.0
        earlier = previous.by(name, *labels) if previous is not None else {}
        return {
            " ".join(filter(None, key)): {
                "total": total,
                **({"per_s": round(max(0.0, total - earlier.get(key, 0.0)) / seconds, 2)} if seconds else {}),
            }
            for key, total in sorted(now.by(name, *labels).items())
            if total
        }

    queue: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (lane, state), rows in now.by("memproxy_learn_jobs", "lane", "state").items():
        queue[lane][state] = rows
    for (lane,), seconds in now.by("memproxy_learn_oldest_seconds", "lane").items():
        queue[lane]["oldest_s"] = round(seconds, 1)
    return {
        "url": server,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": next((version for (version,) in now.by("memproxy_build_info", "version")), ""),
        "status": now.status,
        "parts": now.parts,
        "requests": counted("memproxy_requests_total", "route", "status"),
        "recall": counted("memproxy_recall_total", "result", "reason"),
        "overhead_ms": quantiles(now, previous, "memproxy_request_overhead_seconds"),
        "upstream_ms": quantiles(now, previous, "memproxy_upstream_seconds"),
        "queue": dict(queue),
        "learning": {
            "written": counted("memproxy_memories_written_total", "operation"),
            "rejected": counted("memproxy_candidates_rejected_total", "reason"),
            "failures": counted("memproxy_learn_failures_total", "reason"),
            "model_tokens": counted("memproxy_model_tokens_total", "source", "direction"),
        },
        "store_points": next(iter(now.by("memproxy_store_points").values()), 0.0),
        "disk_free_bytes": {place: free for (place,), free in now.by("memproxy_disk_free_bytes", "place").items()},
    }


def lines(totals: dict[str, Any]) -> Iterator[str]:
    """A view as text."""
    yield f"memproxy {totals['version']} at {totals['url']}: {totals['status']}"
    yield f"parts     {'; '.join(f'{part} {state}' for part, state in totals['parts'].items())}"
    for title in ("requests", "recall"):
        yield f"{title:9} {_list_counts(totals[title])}"
    for title in ("overhead", "upstream"):
        counts = totals[f"{title}_ms"]
        shown = ", ".join(f"{name} {value:g} ms" for name, value in counts.items() if value is not None)
        yield f"{title:9} {shown or 'none yet'}"
    for lane, rows in sorted(totals["queue"].items()):
        shown = ", ".join(f"{name.replace('oldest_s', 'oldest s')} {value:g}" for name, value in rows.items())
        yield f"{'queue':9} {lane}: {shown}"
    for title, counts in totals["learning"].items():
        yield f"{title.replace('_', ' '):13} {_list_counts(counts)}"
    free = ", ".join(f"{place} {bytes_ / 2**30:.1f} GiB free" for place, bytes_ in totals["disk_free_bytes"].items())
    yield f"{'store':9} {totals['store_points']:,.0f} points; {free}"


def _list_counts(counts: dict[str, dict[str, float]]) -> str:
    shown = (
        f"{name or 'all'} {count['total']:,.0f}" + (f" ({count['per_s']:g}/s)" if count.get("per_s") else "")
        for name, count in counts.items()
    )
    return ", ".join(shown) or "none yet"


@app.command()
def top(
    config: Config = None,
    tenant: Whole = None,
    *,
    url: Annotated[
        str | None, typer.Option(help="Address of the server; default this installation's.", metavar="URL")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two looks.", metavar="S")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    json: Json = False,
) -> None:
    """Watch a running server: requests, recalls, overhead, queue, learning and its parts.

    On a terminal until Ctrl-C; elsewhere, and with --once or --json, once.
    """
    from rich.console import Console  # noqa: PLC0415 - for people at a terminal alone

    settings = quiet_settings(config)
    tell_of_all_tenants(tenant, "top")
    console = Console()
    # Ctrl-C is how it is ended
    with contextlib.closing(Server(settings, url)) as server, contextlib.suppress(KeyboardInterrupt):
        scrape = server.look()
        if once or json or not console.is_terminal:
            totals = view(server.url, scrape, None)
            show(totals, lines(totals), as_json=json)
        else:
            _watch(server, scrape, interval)


def _watch(server: Server, scrape: Scrape, interval: float) -> None:
    """Show a view after the other; a server that is away for a while is waited for."""
    from rich.live import Live  # noqa: PLC0415 - as above

    totals, pause = view(server.url, scrape, None), threading.Event()
    ended: list[int] = []

    def end(number: int, _: object) -> None:
        ended.append(number)  # what is raised within a garbage collection is lost
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, end)
    with Live(_panel(totals, None), screen=True, auto_refresh=False) as live:
        while not (ended or pause.wait(interval)):
            trouble = None
            try:
                previous, scrape = scrape, server.look()
                totals = view(server.url, scrape, previous)
            except MemproxyError as error:
                trouble = error.message
            live.update(_panel(totals, trouble), refresh=True)


def _panel(totals: dict[str, Any], trouble: str | None) -> "RenderableType":
    from rich.panel import Panel  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    title = "Ctrl-C ends" if trouble is None else "no answer"
    return Panel(Text("\n".join([*([trouble, ""] if trouble else []), *lines(totals)])), title=title)
