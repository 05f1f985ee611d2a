"""Small tables of text cells, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

Row = dict[str, str]


def aligned(rows: Sequence[Row], left: Collection[str]) -> list[str]:
    """Return a header and one line for each row; the columns in ``left`` are flush left."""
    if not rows:
        return []
    rows = [{name: printable(cell) for name, cell in row.items()} for row in rows]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    lines = []
    for row in ({name: name for name in widths}, *rows):
        cells = (
            row[name].ljust(width) if name in left else row[name].rjust(width)
            for name, width in widths.items()
        )
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def printable(text: str) -> str:
    """Return text that cannot move the cursor or change the colours of a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def html_table(
    caption: str, rows: Sequence[Row], below: Sequence[str] = (), extra: Sequence[str] = ()
) -> str:
    """Return a table and paragraphs below it, every cell escaped.

    ``extra`` is one more cell for each row, markup that is put in as it is.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    last = extra or [""] * len(rows)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.values()) + f"{more}</tr>"
        for row, more in zip(rows, last, strict=True)
    )
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in below)
    return (
        f'<table style="border-spacing:0.8em 0.1em"><caption>{escape(caption)}</caption>'
        f"<tr>{head}</tr>{body}</table>{paragraphs}"
    )
