"""How the demonstration looks: panels and tables on a terminal, the same without colour or movement elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from memproxy.demo.session import Reply


@dataclass(frozen=True)
class Check:
    """Something that the demonstration promises, and whether it held."""

    promise: str
    held: bool
    seen: str = ""


class Screen:
    """Writes to one console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def title(self, text: str) -> None:
        """A heading between two steps."""
        self._console.print()
        self._console.rule(f"[bold]{escape(text)}[/bold]", align="left")

    def line(self, text: str) -> None:
        """Plain text, never broken into other lines than its own (addresses and commands are copied from it)."""
        self._console.print(escape(text), soft_wrap=True, highlight=False)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Progress while something else works: it moves on a terminal and is one line elsewhere."""
        if self._console.is_terminal:
            with self._console.status(escape(text)):
                yield
        else:
            self.line(f"{text} ...")
            yield

    def said(self, reply: Reply) -> None:
        """One exchange, with what the proxy says about it."""
        table = Table.grid(padding=(0, 1))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("user", escape(reply.asked))
        table.add_row("scripted model", escape(reply.text))
        table.add_row("recall", escape(_recall_line(reply)))
        table.add_row("timings", escape(_timing_line(reply)))
        self._console.print(Panel(table, expand=False))

    def stored(self, facts: Sequence[dict[str, Any]], title: str) -> None:
        """Memories as they are in the store."""
        table = Table(title=escape(title), title_justify="left")
        for name in ("kind", "content", "held"):
            table.add_column(name, overflow="fold")
        table.add_column("state")
        for fact in facts:
            state = "active" if fact["active"] else "superseded"
            table.add_row(fact["kind"], escape(fact["content"]), escape(_validity(fact)), state)
        self._console.print(table)

    def injected(self, block: str, recalled: dict[str, Any]) -> None:
        """What the model was given, and where each line of it came from."""
        text = Text(block or "(nothing)")
        self._console.print(Panel(text, title="injected into the prompt", title_align="left", expand=False))
        decision = recalled.get("decision", {})
        self.line(f"why: searched={decision.get('searched')} ({decision.get('reason')}); the lines and their scores:")
        table = Table()
        for name in ("score", "memory", "text"):
            table.add_column(name, overflow="fold")
        for citation in recalled.get("citations", []):
            table.add_row(f"{citation['score']:.2f}", citation["memory_id"][:8], escape(citation["snippet"]))
        self._console.print(table)

    def checks(self, checks: Sequence[Check]) -> None:
        """Everything that was promised, and whether it held."""
        table = Table()
        table.add_column("", no_wrap=True)
        table.add_column("promise", overflow="fold")
        table.add_column("seen", overflow="fold")
        for check in checks:
            mark = "[green]ok[/green]" if check.held else "[red]FAILED[/red]"
            table.add_row(mark, escape(check.promise), escape("" if check.held else check.seen))
        self._console.print(table)


def _recall_line(reply: Reply) -> str:
    return (
        f"{reply.headers.get('x-memproxy-recall', 'no header')}, memories: {reply.headers.get('x-memproxy-memories')}"
    )


def _timing_line(reply: Reply) -> str:
    stages = [_stage(part) for part in reply.headers.get("server-timing", "").split(",") if "dur=" in part]
    return ", ".join([*stages, f"whole request {reply.milliseconds:.1f} ms"])


def _stage(part: str) -> str:
    name, _, duration = part.strip().partition(";dur=")
    return f"{name} {duration} ms"


def _validity(fact: dict[str, Any]) -> str:
    begin, end = fact.get("valid_from") or fact["created_at"], fact.get("valid_to")
    return f"from {str(begin)[:19]}" + (f" to {str(end)[:19]}" if end else "")
