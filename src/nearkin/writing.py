"""Tables out: CSV that a spreadsheet can open safely, or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearkin.bundle import replaced

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how text begins that a spreadsheet would run


def write_rows(path: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as a table, in one step; the file's name says which kind.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    path = Path(path)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"{path}: tables are written as .csv or .parquet files.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix.lower() == ".parquet":
        _write_parquet(path, {name: [row.get(name) for row in rows] for name in names})
        return
    with replaced(path) as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([harmless(row.get(name)) for name in names] for row in rows)


def harmless(value: Any) -> Any:
    """Return a cell that no spreadsheet runs."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA)
    return f"'{value}" if is_formula else value


def _write_parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"writing {path} needs pyarrow: pip install 'nearkin[tables]'") from error
    with replaced(path, binary=True) as file:
        parquet.write_table(pa.table(columns), file)
