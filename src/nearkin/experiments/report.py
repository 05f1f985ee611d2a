"""What the reports of all experiments share: tables to files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearkin.bundle import replaced
from nearkin.evaluation import PairedDifference


def write_table(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    """Write rows as CSV; the columns are those of the first."""
    with replaced(path) as file:
        names = list(rows[0]) if rows else []
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_results(path: Path, columns: dict[str, Any]) -> Path:
    """Write columns as Parquet."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, loaded when it is needed
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"writing {path} needs pyarrow: pip install 'nearkin[tables]'") from error
    with replaced(path, binary=True) as file:
        parquet.write_table(pa.table(columns), file)
    return path


def difference_row(difference: PairedDifference) -> dict[str, object]:
    """Return a paired difference as columns of a table."""
    numbers = {
        "mean": difference.mean,
        "low95": difference.low,
        "high95": difference.high,
        "wins": difference.wins,
    }
    return {name: round(value, 6) for name, value in numbers.items()}
