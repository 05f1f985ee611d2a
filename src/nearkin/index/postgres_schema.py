"""What stands in the database: a registry of indexes, and for each a table of its objects.

A table is named after its index and its generation. A rebuilt index gets a new table; one
transaction enters that into the registry and drops the old one. Who reads the registry and a
table from one snapshot sees all of one generation, or finds its table gone and reads again.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, sql

from nearkin.index.embedding import Embedding
from nearkin.index.postgres_connection import Vector, vector_bytes
from nearkin.index.postgres_rows import Rows
from nearkin.metric import Metric
from nearkin.persistence import fingerprint
from nearkin.points import Points

Floats = NDArray[np.float64]
REGISTRY = "nearkin_indexes"
FORMAT = 1
BLOCK = 10_000
VECTOR_DIMENSIONS, HALFVEC_DIMENSIONS = 2_000, 4_000  # what pgvector can index
LARGEST_SINGLE, LARGEST_HALF = 1e15, 3e4  # of coordinates; squares and sums must exist, too


class StaleIndexError(ValueError):
    """An index was built with another metric than the one it is used with."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the objects of one generation are and how their vectors were made.

    ``scale`` brings vectors into the range of float32 and float16; ``breadth`` is how many
    candidates the graph holds while it is searched, None where there is no graph, and ``recall``
    what that gave.
    """

    table: str
    columns: tuple[str, ...]
    embedding: Embedding
    scale: float
    breadth: int | None = None
    recall: float | None = None

    @classmethod
    def fitted(
        cls, name: str, columns: Sequence[str], metric: Metric, some: Points, alpha: float | None
    ) -> Layout:
        """Return the layout of a new generation for objects like these."""
        embedding = Embedding.fitted(metric, some, alpha)
        size = np.sqrt(np.mean(embedding.items(some) ** 2)) if len(some) else 1.0
        return cls(cls.new_table(name), tuple(columns), embedding, 1.0 / size if size > 0 else 1.0)

    @staticmethod
    def new_table(name: str) -> str:
        """Return a name for the table of a new generation."""
        # psycopg reads % in a statement as a parameter, even within a quoted name
        return f"{name.replace('%', '_')}@{secrets.token_hex(6)}"

    @property
    def halved(self) -> bool:
        """Whether the graph's vectors are float16: float32 has no room for so many dimensions."""
        return self.embedding.width > VECTOR_DIMENSIONS

    def items(self, points: Points) -> Floats:
        """Return the vectors of items as they are stored  (n, width)."""
        return self.embedding.items(points) * self.scale

    def query(self, points: Points) -> Vector | None:
        """Return the vector of one query, or None if it does not fit the range of float32."""
        vector = self.embedding.queries(points)[0] * self.scale
        return Vector(vector) if np.abs(vector).max(initial=0.0) <= self._largest else None

    @property
    def _largest(self) -> float:
        return LARGEST_HALF if self.halved else LARGEST_SINGLE

    def holds(self, points: Points) -> bool:
        """Tell whether these objects fit as they are."""
        fits = np.abs(self.items(points)).max(initial=0.0) <= self._largest
        return bool(fits) and self.embedding.holds(points)

    def holding(self, points: Points) -> Layout:
        """Return this layout with room for these objects, too."""
        wider = replace(self, embedding=self.embedding.stretched(points))
        largest = np.abs(wider.items(points)).max(initial=0.0)
        excess = largest / self._largest
        return replace(wider, scale=wider.scale / excess) if excess > 1 else wider

    def to_json(self) -> str:
        """Return all but the metric and the table, for the registry."""
        e = self.embedding
        parts = {"center": e.center.tolist(), "middle": e.middle.tolist()}
        parts |= {"alpha": e.alpha, "top": e.top, "scale": self.scale}
        parts |= {"columns": self.columns, "breadth": self.breadth, "recall": self.recall}
        return json.dumps(parts)

    @classmethod
    def from_json(cls, table: str, parts: dict[str, Any], metric: Metric) -> Layout:
        """Return what ``to_json`` wrote."""
        center, middle = np.array(parts["center"], float), np.array(parts["middle"], float)
        embedding = Embedding(metric, parts["alpha"], center, middle, parts["top"])
        rest = {key: parts[key] for key in ("scale", "breadth", "recall")}
        return cls(table, tuple(parts["columns"]), embedding, **rest)


def create_registry(connection: Connection[Any]) -> None:
    """Create the registry of indexes, unless it is there."""
    connection.execute("SELECT pg_advisory_xact_lock(20110526)")  # creation races with itself
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {REGISTRY} (name text PRIMARY KEY, format int NOT NULL, "
        "fingerprint text NOT NULL, current_table text NOT NULL, layout jsonb NOT NULL)"
    )


def read_layout(connection: Connection[Any], name: str, metric: Metric) -> Layout | None:
    """Return how the index is stored, None if it is not, or say that its metric is another."""
    row = connection.execute("SELECT to_regclass(%s)", (REGISTRY,)).fetchone()
    if row is None or row[0] is None:
        return None
    row = connection.execute(
        f"SELECT format, fingerprint, current_table, layout FROM {REGISTRY} WHERE name = %s",  # noqa: S608
        (name,),
    ).fetchone()
    if row is None:
        return None
    version, made_with, table, parts = row
    if version != FORMAT:
        raise ValueError(
            f"PostgresIndex {name!r} has format {version}; this nearkin reads format {FORMAT}. "
            "Upgrade nearkin, or replace the index."
        )
    if made_with != fingerprint(metric):
        raise StaleIndexError(
            f"PostgresIndex {name!r} was made with another metric (its hash is {made_with[:12]}, "
            f"this one's is {fingerprint(metric)[:12]}). Search it with that metric, or put this "
            "one's objects in its place: index.replace(points, ids, labels, meta)."
        )
    return Layout.from_json(table, parts, metric)


def stored_table(connection: Connection[Any], name: str) -> str | None:
    """Return the table of an index, whatever its metric is."""
    row = connection.execute(
        f"SELECT current_table FROM {REGISTRY} WHERE name = %s",  # noqa: S608
        (name,),
    ).fetchone()
    return None if row is None else str(row[0])


def enter(connection: Connection[Any], name: str, layout: Layout) -> None:
    """Make a generation the current one of its index."""
    connection.execute(
        f"INSERT INTO {REGISTRY} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO UPDATE SET "  # noqa: S608
        "(format, fingerprint, current_table, layout) = "
        "(EXCLUDED.format, EXCLUDED.fingerprint, EXCLUDED.current_table, EXCLUDED.layout)",
        (name, FORMAT, fingerprint(layout.embedding.metric), layout.table, layout.to_json()),
    )


def forget(connection: Connection[Any], name: str) -> str | None:
    """Take an index out of the registry, and return its table."""
    row = connection.execute(
        f"DELETE FROM {REGISTRY} WHERE name = %s RETURNING current_table",  # noqa: S608
        (name,),
    ).fetchone()
    return None if row is None else str(row[0])


def create_table(connection: Connection[Any], layout: Layout) -> None:
    """Create the table of a generation; ``place`` is the order in which objects came."""
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (place bigint GENERATED ALWAYS AS IDENTITY, id text PRIMARY KEY, "
            "label text, meta jsonb NOT NULL, numbers bytea NOT NULL, "
            "embedding vector({}) NOT NULL)"
        ).format(identifier(layout.table), sql.Literal(layout.embedding.width))
    )
    # float64s do not compress; out of line they keep exact scans short
    connection.execute(
        sql.SQL("ALTER TABLE {} ALTER numbers SET STORAGE EXTERNAL").format(
            identifier(layout.table)
        )
    )


def identifier(name: str) -> sql.Composable:
    """Return a name as SQL, quoted."""
    return sql.Identifier(name)


def drop_table(connection: Connection[Any], table: str) -> None:
    """Drop the table of a generation."""
    connection.execute(sql.SQL("DROP TABLE {}").format(identifier(table)))


def copy_rows(connection: Connection[Any], layout: Layout, rows: Rows) -> None:
    """Load objects by COPY in PostgreSQL's binary format."""
    command = sql.SQL("COPY {} (id, label, meta, numbers, embedding) FROM STDIN BINARY")
    with connection.cursor().copy(command.format(identifier(layout.table))) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for start in range(0, len(rows.ids), BLOCK):
            copy.write(_block(layout, rows, slice(start, start + BLOCK)))
        copy.write(b"\xff\xff")


def _block(layout: Layout, rows: Rows, at: slice) -> bytes:
    points = rows.points[at]
    numbers = packed(layout.embedding.metric, points)
    vectors = vector_bytes(layout.items(points))
    out, size = [], struct.Struct(">i").pack
    for i, row in enumerate(zip(rows.ids[at], rows.labels[at], rows.meta[at], strict=True)):
        name, label, meta = row
        fields = (name.encode(), label, b"\1" + json.dumps(meta).encode(), numbers[i], vectors[i])
        out.append(b"\0\5")
        for field in fields:
            data = field.encode() if isinstance(field, str) else field
            out.append(b"\xff\xff\xff\xff" if data is None else size(len(data)) + data)
    return b"".join(out)


def packed(metric: Metric, points: Points) -> list[bytes]:
    """Return the numbers of each point, x, u and b, as little-endian float64."""
    parts = [points.x]
    if metric.class_costs is not None:
        parts.append(np.asarray(points.u))
        if metric.profiled:
            parts.append(points.profiles())
    table = np.concatenate(parts, axis=1).astype("<f8")
    step, data = 8 * table.shape[1], table.tobytes()
    return [data[i * step : (i + 1) * step] for i in range(len(table))]


def unpacked(metric: Metric, numbers: Sequence[bytes]) -> Points:
    """Return the points whose numbers these are."""
    K, M = metric.n_features, metric.n_classes
    width = K + M * (2 if metric.profiled else 1)
    table = np.frombuffer(b"".join(numbers), dtype="<f8").reshape(len(numbers), width)
    u = None if metric.class_costs is None else table[:, K : K + M]
    b = table[:, K + M :] if metric.profiled and u is not None else None
    return Points(table[:, :K], u, b)


def stored_rows(
    connection: Connection[Any], layout: Layout, limit: int | None = None
) -> Iterator[Rows]:
    """Yield all objects in the order in which they came, or a fixed random sample of them."""
    order = sql.SQL("place") if limit is None else sql.SQL("md5(place::text), place")
    query = sql.SQL("SELECT id, label, meta, numbers FROM {} ORDER BY {} LIMIT {}").format(
        identifier(layout.table), order, sql.Literal(limit)
    )
    with connection.cursor(f"rows {secrets.token_hex(4)}", binary=True) as cursor:
        cursor.execute(query)
        while block := cursor.fetchmany(BLOCK):
            ids, labels, meta, numbers = zip(*block, strict=True)
            yield Rows(ids, labels, meta, unpacked(layout.embedding.metric, numbers))
