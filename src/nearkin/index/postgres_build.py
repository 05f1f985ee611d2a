"""The graph of an index: its weight of the class side and its breadth, chosen by measurement."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from psycopg import Connection, errors, sql

from nearkin.index.embedding import Embedding, dimensions
from nearkin.index.postgres_rows import Rows
from nearkin.index.postgres_schema import (
    HALFVEC_DIMENSIONS,
    Layout,
    copy_rows,
    create_table,
    drop_table,
    enter,
    identifier,
    stored_table,
)
from nearkin.index.postgres_search import Question, answered, send
from nearkin.index.tuning import best_alpha, least_effort
from nearkin.index.where import Where
from nearkin.metric import Metric

logger = logging.getLogger(__name__)
SAMPLE, N_QUERIES = 4_000, 200  # objects on which alpha is chosen, queries for both choices
TRIAL_BREADTHS = (20, 60)
BREADTHS = (40, 60, 80, 100, 130, 160, 200, 250, 320, 400, 500, 640, 800, 1000)


@dataclass(frozen=True)
class Graph:
    """How a graph (HNSW) is built.

    Parameters
    ----------
    links : int, default=16
        Links of each object; twice as many on the lowest level.
    breadth : int, default=128
        Breadth of the search for them.
    memory : int, default=1024
        MiB that the server may use; a graph that does not fit takes far longer.
    """

    links: int = 16
    breadth: int = 128
    memory: int = 1024

    def create(self, connection: Connection[Any], layout: Layout) -> None:
        """Create the graph of a table that has been loaded."""
        table, width = identifier(layout.table), sql.Literal(layout.embedding.width)
        column: Any = sql.SQL("embedding vector_l2_ops")
        if layout.halved:
            column = sql.SQL("(embedding::halfvec({})) halfvec_l2_ops").format(width)
        statement = sql.SQL(
            "CREATE INDEX ON {} USING hnsw ({}) WITH (m = {}, ef_construction = {})"
        ).format(table, column, sql.Literal(self.links), sql.Literal(self.breadth))
        _set(connection, "maintenance_work_mem", f"{self.memory}MB")
        try:
            with connection.transaction():
                connection.execute(statement)
        except errors.DiskFull:  # shared memory, often small in containers: one process needs none
            _set(connection, "max_parallel_maintenance_workers", "0")
            connection.execute(statement)
        connection.execute(sql.SQL("ANALYZE {}").format(table))


def _set(connection: Connection[Any], name: str, value: str) -> None:
    connection.execute("SELECT set_config(%s, %s, true)", (name, value))


@dataclass(frozen=True, eq=False)
class Plan:
    """What to build: objects, read as often as needed, and how."""

    name: str
    metric: Metric
    columns: tuple[str, ...]
    sample: Rows
    blocks: Callable[[], Iterable[Rows]]
    k: int
    recall: float
    graph: Graph

    def carry_out(self, connection: Connection[Any]) -> None:
        """Build a generation and make it the current one, inside of a transaction."""
        alpha = chosen_alpha(connection, self.metric, self.sample, self.k, self.graph)
        layout = Layout.fitted(self.name, self.columns, self.metric, self.sample.points, alpha)
        layout = load(connection, layout, self.blocks)
        self.graph.create(connection, layout)
        layout = with_breadth(connection, layout, self.sample, self.k, self.recall)
        swap(connection, self.name, layout)


def load(
    connection: Connection[Any], layout: Layout, blocks: Callable[[], Iterable[Rows]]
) -> Layout:
    """Create a table with these objects, and return a layout with room for all of them."""
    for rows in blocks():
        layout = layout.holding(rows.points)
    create_table(connection, layout)
    for rows in blocks():
        copy_rows(connection, layout, rows)
        logger.info("loaded %d objects", len(rows.ids))
    return layout


def swap(connection: Connection[Any], name: str, layout: Layout) -> None:
    """Make a generation the current one, and drop the one before it."""
    old = stored_table(connection, name)
    enter(connection, name, layout)
    if old is not None:
        drop_table(connection, old)


def check_width(metric: Metric) -> None:
    """Raise an error if no graph can hold vectors of this metric."""
    if dimensions(metric) > HALFVEC_DIMENSIONS:
        raise ValueError(
            f"PostgresIndex: this metric needs vectors of {dimensions(metric)} dimensions, and "
            f"pgvector indexes up to {HALFVEC_DIMENSIONS}; learn it on fewer features."
        )


def chosen_alpha(
    connection: Connection[Any], metric: Metric, sample: Rows, k: int, graph: Graph
) -> float | None:
    """Return the weight of the class side with which the graph of a sample misses least."""
    if metric.class_costs is None or len(sample.ids) < 10 * N_QUERIES:
        return None

    def recall(alpha: float) -> float:
        layout = Layout.fitted("nearkin trial", (), metric, sample.points, alpha)
        create_table(connection, layout)
        copy_rows(connection, layout, sample)
        graph.create(connection, layout)
        trial = Trial(connection, layout, sample, k)
        found = float(np.mean([trial.recall(breadth) for breadth in TRIAL_BREADTHS]))
        drop_table(connection, layout.table)
        return found

    return best_alpha(Embedding.fitted(metric, sample.points).alpha, recall)


def with_breadth(
    connection: Connection[Any], layout: Layout, sample: Rows, k: int, recall: float
) -> Layout:
    """Return the layout with the smallest breadth that finds the share ``recall``.

    By one standard error more: it is measured on a few queries. A graph that cannot is not used.
    """
    trial = Trial(connection, layout, sample, k)
    breadth, found = least_effort(BREADTHS, trial.sure_recall, recall)
    if breadth is not None:
        return replace(layout, breadth=breadth, recall=found)
    warnings.warn(
        f"PostgresIndex: the graph finds {found:.4f} of the nearest objects at a breadth of up "
        f"to {BREADTHS[-1]}, not {recall}, so search stays exact; build(graph=Graph(links=32)) or "
        "a smaller recall= may help.",
        RuntimeWarning,
        stacklevel=5,
    )
    return replace(layout, breadth=None, recall=None)


class Trial:
    """Objects as queries, each searched for without itself, against exact search."""

    def __init__(self, connection: Connection[Any], layout: Layout, sample: Rows, k: int) -> None:
        self.connection = connection
        exact = replace(layout, breadth=None)
        self.questions = [
            Question.of(sample.points[i], k, Where(exclude_ids=[sample.ids[i]]), exact)
            for i in range(min(N_QUERIES, len(sample.ids)))
        ]
        self.limits = [found.distances[-1:] for found in answered(self._ask, self.questions)]

    def _ask(self, questions: Sequence[Question]) -> list[list[Any]]:
        with self.connection.pipeline():
            cursors = send(self.connection, questions)
        return [cursor.fetchall() for cursor in cursors]

    def recall(self, breadth: int) -> float:
        """Return the share of the k nearest that the graph finds."""
        return float(np.mean(self._shares(breadth)))

    def sure_recall(self, breadth: int) -> float:
        """Return that share less one standard error: a query may lose all or nothing."""
        shares = self._shares(breadth)
        return float(np.mean(shares) - np.std(shares) / len(shares) ** 0.5)

    def _shares(self, breadth: int) -> list[float]:
        layout = replace(self.questions[0].layout, breadth=breadth)
        questions = [Question.of(q.points, q.k, q.where, layout) for q in self.questions]
        found = answered(self._ask, questions)
        shares = [
            float(np.mean(near.distances <= limit))
            for near, limit in zip(found, self.limits, strict=True)
            if len(limit)
        ]
        return shares or [1.0]
