"""What commands print: data on stdout (a table or JSON), everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]

DEBUG = False
LEFT = ""  # what an interrupted job left behind, where that is known
WIDE = 240


def note(text: str) -> None:
    """Print a message for people, on stderr."""
    print(text, file=sys.stderr)


def plain_warnings() -> None:
    """Show warnings as messages for people, each once, without the line of code."""
    warnings.showwarning = lambda message, *_: note(f"warning: {message}")


def failed(error: Exception, code: int) -> int:
    """Report an error in one message, with the traceback after ``--debug``; return the code."""
    if DEBUG:
        traceback.print_exception(error)
    what = "error" if code == 1 else f"error in nearkin itself ({type(error).__name__})"
    hint = "" if code == 1 or DEBUG else "; run with --debug to see where, and please report it"
    text = f"{what}: {error}{hint}"
    note(json.dumps({"error": text}) if "--json" in sys.argv else text)
    return code


def show_json(found: Any) -> None:
    """Print JSON on stdout; what is not finite becomes null."""
    print(json.dumps(_plain(found), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def show_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows on stdout as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        print(f"{title}: nothing")
        return
    # Text: a name in square brackets is a name, not markup
    table = Table(title=Text(title), title_justify="left")
    for name, value in rows[0].items():
        justify: Any = "left" if isinstance(value, str) else "right"
        table.add_column(Text(name), justify=justify, overflow="fold")  # nothing is cut off
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE  # a file or a pipe has no edge
    console.print(table)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)


@contextmanager
def progress(
    what: str, interrupted: str = "nothing was written"
) -> Iterator[Callable[[int, int], None]]:
    """Lend a function ``(done, total)`` that shows on stderr how far a long job is.

    ``interrupted`` says what an interrupt leaves behind.
    """
    global LEFT  # noqa: PLW0603
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    except KeyboardInterrupt:
        LEFT = f": {interrupted}"
        raise


def follow(what: str, counts: Iterable[int], total: int) -> None:
    """Run a resumable job that yields how much of it is done, and show that."""
    with progress(what, "what was finished is kept; run the same command to go on") as report:
        for done in counts:
            report(done, total)
