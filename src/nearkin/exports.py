"""A collection for other engines: vectors whose Euclidean distance ranks as the metric does.

What a query's vector is made of goes along as a recipe, so that another program can search.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.bundle import replaced
from nearkin.data import as_text, is_missing
from nearkin.index.embedding import Embedding
from nearkin.model import Model
from nearkin.persistence import fingerprint

INDEXED = 2000  # most dimensions that pgvector's indexes take
ROWS = 500  # of one INSERT
STEPS = (
    "x = (features[kept] - shift) / scale, the features in the order of feature_names",
    "u = one-hot of the query's class in classes, or its class probabilities",
    "with completion: x = [x, [u, x - completion_center] . completion]",
    "f = (x - center) * root_weights",
    "c = u . class_costs, less its mean (no profiles); or [u, zeros like u] (profiles)",
    "query vector = [f, -c / (2 alpha), 0]; without classes f alone",
    "squared Euclidean distance - constant = d2, with constant = top^2 + |c / (2 alpha)|^2 "
    "- c . middle, less the mean of u . class_costs where there are no profiles",
)


def recipe(model: Model, embedding: Embedding) -> dict[str, Any]:
    """Return all that another program needs to make a query's vector."""
    metric, prep = model.metric, model.preparation
    found: dict[str, Any] = {
        "nearkin": __version__,
        "fingerprint": fingerprint(metric),
        "steps": STEPS,
        "feature_names": list(model.objects.feature_names),
        "kept": prep.kept_.tolist(),
        "shift": prep.shift_.tolist(),
        "scale": prep.scale_.tolist(),
        "center": embedding.center.tolist(),
        "root_weights": np.sqrt(metric.weights).tolist(),
        "profiles": metric.profiled,
        "dimension": embedding.width,
    }
    if metric.class_costs is not None and metric.classes is not None:
        found |= {
            "classes": metric.classes.tolist(),
            "class_costs": metric.class_costs.tolist(),
            "alpha": embedding.alpha,
            "middle": embedding.middle.tolist(),
            "top": embedding.top,
        }
    if metric.completion is not None and metric.center is not None:
        found["completion"] = metric.completion.tolist()
        found["completion_center"] = metric.center[: metric.n_given].tolist()
    return found


def vectors(model: Model) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the objects' vectors (n, D) and the recipe."""
    embedding = Embedding.fitted(model.metric, model.points)
    return embedding.items(model.points), recipe(model, embedding)


def export_parquet(model: Model, path: str | Path) -> None:
    """Write id, label, vector and metadata; the recipe is the schema's metadata "nearkin"."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"writing {path} needs pyarrow: pip install 'nearkin[tables]'") from error
    items, how = vectors(model)
    flat = pa.array(items.ravel())
    columns: dict[str, Any] = {
        "id": model.objects.ids.tolist(),
        "label": [_text(label) for label in model.objects.y],
        "vector": pa.FixedSizeListArray.from_arrays(flat, items.shape[1]),
    }
    for name, column in model.objects.meta.items():
        columns[name if name not in columns else f"meta.{name}"] = [_text(v) for v in column]
    table = pa.table(columns).replace_schema_metadata({"nearkin": json.dumps(how)})
    with replaced(Path(path), binary=True) as file:
        parquet.write_table(table, file)


def export_pgvector(model: Model, path: str | Path, table: str = "nearkin_objects") -> None:
    """Write SQL that makes a table with pgvector's column ``embedding`` and a graph index.

    One transaction; the recipe is the table's comment, too.
    """
    with replaced(Path(path)) as file:
        file.writelines(f"{line}\n" for line in _script(model, table))


def _script(model: Model, table: str) -> Iterator[str]:
    items, how = vectors(model)
    name, text = quoted_name(table), json.dumps(how)
    yield "-- Objects of a learned distance, for PostgreSQL with pgvector. Nearest to a query:"
    yield f"--   SELECT id FROM {name} ORDER BY embedding <-> '[...]' LIMIT 10;"  # noqa: S608 - quoted
    yield "-- with the query's vector made by this recipe:"
    yield from (f"--   {step}" for step in STEPS)
    yield f"-- {text}"
    yield "BEGIN;"
    yield "SET LOCAL standard_conforming_strings = on;"
    yield "CREATE EXTENSION IF NOT EXISTS vector;"
    yield (
        f"CREATE TABLE {name} (id text PRIMARY KEY, label text, meta jsonb NOT NULL, "
        f"embedding vector({items.shape[1]}) NOT NULL);"
    )
    for start in range(0, len(items), ROWS):
        some = range(start, min(start + ROWS, len(items)))
        yield f"INSERT INTO {name} (id, label, meta, embedding) VALUES"
        yield ",\n".join(_row(model, row, items[row]) for row in some) + ";"
    if items.shape[1] <= INDEXED:
        yield f"CREATE INDEX ON {name} USING hnsw (embedding vector_l2_ops);"
    else:
        yield f"-- no index: pgvector's take up to {INDEXED} dimensions"
    yield f"COMMENT ON TABLE {name} IS {quoted(text)};"
    yield "COMMIT;"


def _row(model: Model, row: int, vector: NDArray[np.float64]) -> str:
    objects = model.objects
    meta = {name: _text(column[row]) for name, column in objects.meta.items()}
    label = _text(objects.y[row])
    cells = (
        quoted(str(objects.ids[row])),
        "NULL" if label is None else quoted(label),
        quoted(json.dumps(meta)),
        quoted("[" + ",".join(map(repr, vector.tolist())) + "]"),
    )
    return f"({', '.join(cells)})"


def quoted(text: str) -> str:
    """Return text as an SQL string, whatever is in it."""
    if "\x00" in text:
        raise ValueError(f"PostgreSQL cannot hold text with a NUL character: {text!r}.")
    return "'" + text.replace("'", "''") + "'"


def quoted_name(text: str) -> str:
    """Return a name as an SQL identifier, whatever is in it."""
    if not text or "\x00" in text or not text.isprintable() or len(text.encode()) > 63:
        raise ValueError(f"{text!r} cannot name a table: pass 1 to 63 bytes of printable text.")
    return '"' + text.replace('"', '""') + '"'


def _text(value: Any) -> str | None:
    return None if is_missing(value) else as_text(value)
