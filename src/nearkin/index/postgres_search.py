"""Questions to the table of one generation: filters, candidates, proof that none is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import Connection, Cursor, errors, sql

from nearkin.data import as_text
from nearkin.index.postgres_connection import Vector
from nearkin.index.postgres_rows import storable
from nearkin.index.postgres_schema import REGISTRY, Layout, identifier, unpacked
from nearkin.index.where import Where
from nearkin.points import Points

Floats = NDArray[np.float64]
BROADEST = 1_000  # of pgvector's graph searches
EVERYTHING = 2**31
AT_ONCE = 64  # questions in one exchange
HALF_UNIT = 2.0**-24  # relative rounding error of a float32
SETTINGS = (
    "SELECT set_config('hnsw.ef_search', %s, true), "
    "set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('jit', 'off', true)"
)


class Nearest(NamedTuple):
    """Objects in the order of their distance, and then of their place."""

    ids: list[str]
    distances: Floats


class SwappedError(Exception):
    """The generation that was asked is no longer the current one."""


@dataclass(frozen=True, eq=False)
class Question:
    """One query: how many objects, among which, by the graph or one by one."""

    points: Points
    k: int
    where: Where | None
    layout: Layout
    candidates: int
    exact: bool

    @classmethod
    def of(cls, points: Points, k: int, where: Where | None, layout: Layout) -> Question:
        """Return the first question to ask for a query."""
        candidates = max(2 * k, k + 16)
        exact = layout.breadth is None or candidates > BROADEST
        return cls(points, k, where, layout, candidates, exact).checked()

    def checked(self) -> Question:
        """Return this question, for all objects if no vector can stand for the query."""
        if self.layout.query(self.points) is None:
            return replace(self, exact=True, candidates=EVERYTHING)
        return self

    def sql(self) -> tuple[sql.Composed, list[Any]]:
        """Return the statement and its parameters."""
        width = self.layout.embedding.width
        vector = self.layout.query(self.points) or Vector(np.zeros(width))
        kind: sql.Composable = sql.SQL("embedding <-> %s")
        if self.exact:
            kind = sql.SQL("(embedding <-> %s) + 0")  # no graph answers this
        elif self.layout.halved:
            half = sql.SQL("::halfvec({})").format(sql.Literal(width))
            kind = sql.SQL("embedding{} <-> %s{}").format(half, half)
        condition, values = conditions(self.where, self.layout.columns)
        statement = sql.SQL(
            "SELECT place, id, numbers, {} AS distance FROM {} WHERE {} ORDER BY distance LIMIT {}"
        ).format(kind, identifier(self.layout.table), condition, sql.Literal(self.candidates))
        return statement, [vector, *values]

    def judged(self, rows: list[Any]) -> Nearest | Question:
        """Return the answer that these rows give, or the next question."""
        if not self.exact and len(rows) < self.candidates:
            return replace(self, exact=True)  # the graph gave up: ask one by one
        if not rows:
            return Nearest([], np.empty(0))
        place, ids, numbers, distance = zip(*rows, strict=True)
        metric = self.layout.embedding.metric
        items = unpacked(metric, numbers)
        found = metric.pair_distances(self.points, items, np.zeros(len(rows), int))
        first = np.lexsort((place, found))[: self.k]
        complete = len(rows) < self.candidates
        if self.exact and not complete and not found[first[-1]] ** 2 < self._bound(distance[-1]):
            return replace(self, candidates=self.candidates * 4)
        return Nearest([ids[i] for i in first], found[first])

    def _bound(self, farthest: float) -> float:
        """Return what the squared distance of an object that was not returned exceeds.

        Vectors are rounded to float32, and so is each step of a sum over their coordinates:
        ``|D~ - D| <= e (|a| + |b|)`` with ``|b| <= |a| + D``, and D~ is off by a share of itself.
        """
        layout = self.layout
        size = np.linalg.norm(layout.embedding.queries(self.points))
        steps = 2 * (layout.embedding.width + 4) * HALF_UNIT
        least = farthest / layout.scale * (1 - steps) - 2 * HALF_UNIT * size
        if not 0 < least < np.inf:
            return -np.inf
        least /= 1 + HALF_UNIT
        constant, slack = layout.embedding.constants(self.points)
        return float(least**2 * (1 - 1e-12) - constant[0] - slack[0])


def answered(
    ask: Callable[[Sequence[Question]], list[list[Any]]], questions: Sequence[Question]
) -> list[Nearest]:
    """Ask until every question has its answer."""
    found: dict[int, Nearest] = {}
    open_ones = dict(enumerate(questions))
    while open_ones:
        at = list(open_ones)[:AT_ONCE]
        for i, rows in zip(at, ask([open_ones[i] for i in at]), strict=True):
            verdict = open_ones[i].judged(rows)
            if isinstance(verdict, Nearest):
                found[i] = verdict
                del open_ones[i]
            else:
                open_ones[i] = verdict
    return [found[i] for i in range(len(questions))]


def ask(connection: Connection[Any], name: str, questions: Sequence[Question]) -> list[list[Any]]:
    """Return rows for each question, all from one snapshot, in one exchange with the server."""
    try:
        with connection.pipeline():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            current = connection.execute(
                f"SELECT current_table FROM {REGISTRY} WHERE name = %s",  # noqa: S608
                (name,),
            )
            cursors = send(connection, questions)
            connection.execute("COMMIT")
    except errors.UndefinedTable as error:
        raise SwappedError from error
    if current.fetchone() != (questions[0].layout.table,):
        raise SwappedError
    return [cursor.fetchall() for cursor in cursors]


def send(connection: Connection[Any], questions: Sequence[Question]) -> list[Cursor[Any]]:
    """Send questions of one layout, inside of a pipeline and a transaction."""
    candidates = [question.candidates for question in questions if not question.exact]
    breadth = max([questions[0].layout.breadth or 1, *candidates])
    connection.execute(SETTINGS, (str(breadth),))
    return [
        connection.execute(*question.sql(), prepare=True, binary=True) for question in questions
    ]


def conditions(where: Where | None, columns: Sequence[str]) -> tuple[sql.Composed, list[Any]]:
    """Return a filter as SQL and its parameters."""
    parts, values = [sql.SQL("true")], list[Any]()
    if where is not None:
        if where.classes is not None:
            parts.append(sql.SQL("label = ANY(%s)"))
            values.append(_texts(where.classes))
        if len(where.exclude_ids):
            parts.append(sql.SQL("id <> ALL(%s)"))
            values.append(_texts(where.exclude_ids))
        only, exclude = sql.SQL("meta->>%s = ANY(%s)"), sql.SQL("(meta->>%s = ANY(%s)) IS NOT TRUE")
        for filters, part in ((where.only, only), (where.exclude, exclude)):
            for column, wanted in filters.items():
                if column not in columns:
                    raise ValueError(
                        f"Where: there is no metadata column {column!r}; found {sorted(columns)}."
                    )
                parts.append(part)
                values += [column, _texts(wanted)]
    return sql.SQL(" AND ").join(parts), values


def _texts(values: Collection[Any]) -> list[str]:
    texts = {as_text(value) for value in values}
    return sorted(
        text for text in texts if text is not None and storable(text)
    )  # no object has any other
