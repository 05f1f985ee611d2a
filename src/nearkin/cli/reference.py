"""The reference part of docs/cli.md, written from the commands themselves.

``python -m nearkin.cli.reference docs/cli.md`` brings the page up to date; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from nearkin.bundle import replaced
from nearkin.cli.main import app

START = "<!-- written by python -m nearkin.cli.reference docs/cli.md -->\n"


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command with its words."""
    group = get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def split_help(command: Any) -> tuple[str, str]:
    """Return what a command does, and its example."""
    text, _, example = " ".join((command.help or "").split()).partition("Example: ")
    return text.strip(), example


def reference() -> str:
    """Return the reference as Markdown."""
    parts = []
    for words, command in sorted(commands(), key=lambda pair: pair[0]):
        text, example = split_help(command)
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        usage = " ".join(["nearkin", words, *(one.name.upper() for one in arguments)])
        lines = [f"### {usage}", "", text, "", f"    {example}", ""]
        lines += ["| | |", "|---|---|", *(_row(one) for one in command.params)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
    else:
        name = ", ".join(f"`{one}`" for one in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    shown = default not in (None, False, ()) and not parameter.required and not callable(default)
    more = f" Default: {default}." if shown else " Required." if parameter.required else ""
    return f"| {name} | {parameter.help}{more} |"


def updated(text: str) -> str:
    """Return the page with a new reference in the place of its old one."""
    before, found, _ = text.partition(START)
    if not found:
        raise ValueError(f"the page has no line {START.strip()!r}.")
    return before + START + "\n" + reference()


def main() -> None:
    """Bring the page up to date."""
    path = Path(sys.argv[1])
    text = updated(path.read_text())
    with replaced(path) as file:
        file.write(text)


if __name__ == "__main__":
    main()
