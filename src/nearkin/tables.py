"""Tables in: objects and ratings by id, from CSV, Parquet or a DataFrame.

All bad rows of a table are reported in one error. Ids are read as text, so that 7 in a
spreadsheet and 7 in a database are the same object.
"""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.data import MISSING_TEXT, Objects, Ratings, as_text, is_missing

Column = list[Any]
SHOWN = 5
TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


@dataclass
class Table:
    """Columns by name, and where each row stood."""

    source: str
    columns: dict[str, Column]
    where: Callable[[int], str]
    problems: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), []))

    def column(self, name: str) -> Column:
        """Return a column that must be there."""
        if name not in self.columns:
            raise ValueError(
                f"{self.source}: there is no column {name!r}; found {list(self.columns)[:20]}."
            )
        return self.columns[name]

    def complain(self, what: str, rows: Iterable[int]) -> None:
        """Note a problem of some rows, to be raised with all the others."""
        rows = list(rows)
        if rows:
            shown = ", ".join(self.where(row) for row in rows[:SHOWN])
            more = f", ... ({len(rows)} in all)" if len(rows) > SHOWN else ""
            self.problems.append(f"{what}: {shown}{more}")

    def raise_problems(self) -> None:
        """Raise one error with everything that is wrong."""
        if self.problems:
            lines = "\n".join(f"  - {problem}" for problem in self.problems)
            raise ValueError(f"{self.source} cannot be used:\n{lines}")


def read_objects(
    source: Any,
    *,
    id: str = "id",  # noqa: A002 - the column's name in the table
    label: str = "label",
    features: Sequence[str] | None = None,
    meta: Sequence[str] = (),
    text_is_meta: bool = False,
    alone: bool = False,
) -> Objects:
    """Read a table of objects.

    Parameters
    ----------
    source : path of a .csv or .parquet file, DataFrame, or dict of columns
        One row for each object.
    id, label : str
        Names of the columns with the identifier and, if there is one, the label. An empty
        label, NaN, None or -1 means unknown.
    features : sequence of str, optional
        Columns to use as features; all others by default.
    meta : sequence of str, optional
        Columns to keep beside the features, such as a patient's number, to filter by.
    text_is_meta : bool, default=False
        Keep a column that holds no number at all as metadata; by default it is an error.
    alone : bool, default=False
        The objects are queries and not to be told apart: a constant feature is no cause to warn.

    Examples
    --------
    >>> import nearkin as nk
    >>> objects = nk.read_objects({"id": ["p", "q"], "label": ["cyst", None], "size": [4.1, 12]})
    >>> objects.X.tolist(), objects.y.tolist(), objects.feature_names
    ([[4.1], [12.0]], ['cyst', None], ['size'])
    """
    table = read_table(source, "objects")
    ids = [as_text(value) for value in table.column(id)]
    table.complain("no id", (row for row, key in enumerate(ids) if key is None))
    table.complain("id seen before", _repeats(ids))
    for option, given in (("features", features), ("meta", meta)):
        if isinstance(given, str):
            raise TypeError(f"read_objects({option}={given!r}): pass a list of column names.")
    kept = [*meta]
    if text_is_meta:
        kept += [name for name in table.columns if name not in meta and _is_text(table, name)]
    kept = [name for name in kept if name not in (id, label)]
    names = [name for name in table.columns if name not in (id, label, *kept)]
    if features is not None:
        names = list(features)
    if not names:
        table.problems.append(f"no feature columns beside {id!r} and {label!r}")
    columns = [_numbers(table, name, features is None) for name in names]
    table.raise_problems()
    X = np.column_stack(columns)
    if len(X) > 1 and not alone:
        constant = [name for name, column in zip(names, X.T, strict=True) if np.ptp(column) == 0]
        if constant:
            warnings.warn(
                f"{table.source}: constant feature(s) {', '.join(constant[:SHOWN])} "
                f"({len(constant)} in all) cannot tell objects apart.",
                UserWarning,
                stacklevel=2,
            )
    labels = table.columns.get(label, [None] * table.n_rows)
    y = np.array([None if _is_missing(value) else value for value in labels], dtype=object)
    beside = {name: np.array(table.column(name), dtype=object) for name in kept}
    return Objects(np.array(ids, dtype=object), X, y, names, beside)


def read_ratings(
    source: Any,
    objects: Objects | Sequence[Any],
    *,
    a: str = "a",
    b: str = "b",
    rating: str = "rating",
    rater: str = "rater",
    weight: str = "weight",
    n_levels: int = 3,
) -> Ratings:
    """Read a table of ratings of pairs of objects, given by id.

    Parameters
    ----------
    source : path of a .csv or .parquet file, DataFrame, or dict of columns
        One row for each rating.
    objects : Objects or sequence of ids
        The objects, in the order of the rows of X.
    a, b, rating, rater, weight : str
        Names of the columns; the last two may be absent.
    n_levels : int, default=3
        Ratings run from 1 (dissimilar) to this.

    Examples
    --------
    >>> import nearkin as nk
    >>> nk.read_ratings({"a": ["p"], "b": ["q"], "rating": [3]}, ["p", "q"])
    Ratings(1 ratings, levels 1/2/3: 0/0/1)
    """
    table = read_table(source, "ratings")
    if hasattr(objects, "columns") or isinstance(objects, dict):
        raise TypeError(
            "read_ratings: objects is a table; read it with nearkin.read_objects first."
        )
    if not isinstance(objects, Objects):
        keys = np.array(list(objects), dtype=object)
        objects = Objects(keys, np.empty((len(keys), 0)), np.empty(0))
    ends = []
    for name in (a, b):
        rows = objects.rows(table.column(name))
        unknown = np.flatnonzero(rows < 0)
        examples = sorted({str(table.columns[name][row]) for row in unknown})[:SHOWN]
        table.complain(f"unknown id in column {name!r} (such as {', '.join(examples)})", unknown)
        ends.append(rows)
    itself = (ends[0] == ends[1]) & (ends[0] >= 0)
    table.complain("an object rated against itself", np.flatnonzero(itself))
    level = np.array([_number(value) for value in table.column(rating)])
    with np.errstate(invalid="ignore"):
        fine = (level >= 1) & (level <= n_levels) & (level % 1 == 0)
    table.complain(
        f"{rating} is not a whole number in 1..{n_levels} (n_levels= sets the scale)",
        np.flatnonzero(~fine),
    )
    weights = None
    if weight in table.columns:
        weights = np.array([_number(value) for value in table.columns[weight]])
        bad = ~(np.isfinite(weights) & (weights > 0))
        table.complain("weight is not a positive number", np.flatnonzero(bad))
    table.raise_problems()
    raters = table.columns.get(rater)
    return Ratings(
        ends[0],
        ends[1],
        level.astype(np.int64),
        rater=None if raters is None else np.array(raters, dtype=object),
        weight=weights,
        n_levels=n_levels,
    )


def read_table(source: Any, what: str) -> Table:
    """Return the columns of a CSV or Parquet file, a DataFrame or a dict of columns."""
    if isinstance(source, Table):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such file to read {what} from.")
        suffix = next((s for s in TABLE_SUFFIXES if path.name.lower().endswith(s)), None)
        if suffix is None:
            raise ValueError(f"{path}: {what} are read from {', '.join(TABLE_SUFFIXES)} files.")
        table = _read_parquet(path) if suffix == ".parquet" else _read_csv(path)
    else:
        names = list(getattr(source, "column_names", getattr(source, "columns", source)))
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError(
                f"the {what} table: pass a DataFrame or a dict of columns, each with a name of its "
                f"own; found {names[:20]!r}."
            )
        columns = {name: _as_list(source[name]) for name in names}
        table = Table(f"the {what} table", columns, lambda row: f"row {row}")
    lengths = {name: len(column) for name, column in table.columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{table.source}: columns differ in length: {lengths}.")
    if table.n_rows == 0:
        raise ValueError(f"{table.source}: no rows.")
    return table


def _read_csv(path: Path) -> Table:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        try:
            header = next((row for row in reader if row), [])
            rows, lines = [], []
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
        except (UnicodeDecodeError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}, line {reader.line_num}: not a CSV table: {error}") from error
    table = Table(str(path), {}, lambda row: f"line {lines[row]}")
    header = [name.strip() for name in header]
    if len(set(header)) < len(header) or "" in header:
        table.problems.append(f"column names are repeated or empty: {header}")
    wrong = [row for row, cells in enumerate(rows) if len(cells) != len(header)]
    table.complain(f"not {len(header)} cells as in the header", wrong)
    table.raise_problems()
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in header]
    table.columns = dict(zip(header, columns, strict=True))
    return table


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - an extra, loaded when it is needed
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install 'nearkin[tables]'") from error
    table = parquet.read_table(path)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return Table(str(path), columns, lambda row: f"row {row}")


def _as_list(column: Any) -> Column:
    makers = ("tolist", "to_list", "to_pylist")
    to_list = next((getattr(column, name) for name in makers if hasattr(column, name)), None)
    return list(to_list() if to_list else column)


def _is_missing(value: Any) -> bool:
    return value.strip() in MISSING_TEXT if isinstance(value, str) else is_missing(value)


def _number(value: Any) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _is_text(table: Table, name: str) -> bool:
    """Tell whether a column holds no number at all."""
    return not np.isfinite([_number(cell) for cell in table.column(name)]).any()


def _numbers(table: Table, name: str, by_default: bool) -> NDArray[np.float64]:
    cells = table.column(name)
    values = np.array([_number(cell) for cell in cells])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad) == len(values) and by_default:
        table.problems.append(
            f"column {name!r} holds no numbers (such as {cells[0]!r}); name the features with "
            "features=[...]"
        )
    else:
        table.complain(f"feature {name!r} is not a finite number", bad)
    return values


def _repeats(ids: Sequence[Any]) -> list[int]:
    seen: set[Any] = set()
    repeats = []
    for row, key in enumerate(ids):
        if key is not None and key in seen:
            repeats.append(row)
        seen.add(key)
    return repeats
