"""Search in PostgreSQL: many processes share one collection, and change it while others search."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from psycopg import Connection, errors, sql

from nearkin.data import as_text, check_number
from nearkin.index.common import Found
from nearkin.index.postgres_build import SAMPLE, Graph, Plan, check_width, load, swap, with_breadth
from nearkin.index.postgres_connection import Database
from nearkin.index.postgres_rows import Rows, check_points, rows_of, storable
from nearkin.index.postgres_schema import (
    Layout,
    copy_rows,
    create_registry,
    create_table,
    drop_table,
    enter,
    forget,
    identifier,
    read_layout,
    stored_rows,
)
from nearkin.index.postgres_search import Question, SwappedError, answered, ask
from nearkin.index.where import Where
from nearkin.metric import Metric
from nearkin.points import Points

LONGEST_NAME = 48  # bytes; PostgreSQL cuts names at 63, and a table's has a suffix
SWAPS = 20  # how often a search may find its table replaced before it gives up


class PostgresIndex:
    """A collection of objects in a PostgreSQL database with pgvector (0.8 or newer).

    Objects live on the server: what one process adds, all others find, and every change is one
    transaction. Until ``build`` is called, search is exact; afterwards a graph proposes
    candidates, which are ranked by the metric itself, in float64.

    Parameters
    ----------
    metric : Metric
        Its fingerprint is stored; with another metric the index is refused as stale.
    url : str
        ``postgresql://user:password@host:5432/database``. No message shows it.
    name : str
        Name of the index, any text of up to 48 bytes.
    recall : float, default=0.99
        Share of the nearest objects that ``build`` tunes the graph to find.

    """

    def __init__(self, metric: Metric, url: str, name: str, recall: float = 0.99) -> None:
        check_number("PostgresIndex", "recall", recall)
        if not (
            isinstance(name, str) and storable(name) and 0 < len(name.encode()) <= LONGEST_NAME
        ):
            raise ValueError(
                f"PostgresIndex(name={name!r}): pass a text of 1 to {LONGEST_NAME} bytes."
            )
        if recall > 1:
            raise ValueError(f"PostgresIndex({recall=}): must be at most 1.")
        check_width(metric)
        self.metric, self.name, self.recall = metric, name, recall
        self._database = Database(url)
        self._layout: Layout | None = None

    @classmethod
    def open(cls, metric: Metric, url: str, name: str, recall: float = 0.99) -> PostgresIndex:
        """Return an index that is there already; none, or another metric's, is an error."""
        index = cls(metric, url, name, recall)
        try:
            if index._read() is None:
                place = index._database.place
                raise LookupError(f"PostgresIndex: {place} holds no index named {name!r}.")
        except BaseException:
            index.close()
            raise
        return index

    def __repr__(self) -> str:
        return f"PostgresIndex({self.name!r} in {self._database.place})"

    def __enter__(self) -> PostgresIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the index stays on the server, and a later call connects again."""
        self._database.close()

    @property
    def recall_(self) -> float | None:
        """The share of the nearest that the graph found when it was built, None without one.

        Less one standard error of the queries it was measured on.
        """
        layout = self._read()
        return None if layout is None else layout.recall

    def _read(self) -> Layout | None:
        def work(connection: Connection[Any]) -> Layout | None:
            return read_layout(connection, self.name, self.metric)

        self._layout = self._database.again(work)
        return self._layout

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        def work(connection: Connection[Any]) -> int:
            layout = read_layout(connection, self.name, self.metric)
            if layout is None:
                return 0
            query = sql.SQL("SELECT count(*) FROM {}").format(identifier(layout.table))
            row = connection.execute(query).fetchone()
            return 0 if row is None else int(row[0])

        for _ in range(SWAPS):
            try:
                return int(self._database.again(work))
            except errors.UndefinedTable:
                continue  # replaced between the two questions
        raise self._restless()

    def search(self, points: Points, k: int, where: Where | Sequence[Where] | None = None) -> Found:
        """Return the k nearest objects of each point, among those that ``where`` allows.

        Each query sees one state of the collection. Equal distances are in the order in which
        objects were added.
        """
        check_number("PostgresIndex.search", "k", k, 1, whole=True)
        check_points(self.metric, points, "PostgresIndex.search")
        filters = [where] * len(points) if where is None or isinstance(where, Where) else where
        if len(filters) != len(points):
            raise ValueError(
                f"PostgresIndex.search: where has {len(filters)} filters for {len(points)} "
                "queries; pass one for each, or one for all."
            )
        found = Found(
            np.full((len(points), k), None, dtype=object), np.full((len(points), k), np.inf)
        )
        for i, (ids, distances) in enumerate(self._nearest(points, k, filters)):
            found.ids[i, : len(ids)] = ids
            found.distances[i, : len(ids)] = distances
        return found

    def _nearest(self, points: Points, k: int, filters: Sequence[Where | None]) -> Any:
        for _ in range(SWAPS):
            layout = self._layout or self._read()
            if layout is None or not len(points):
                return []
            questions = [Question.of(points[i], k, filters[i], layout) for i in range(len(points))]
            try:
                return answered(self._ask, questions)
            except SwappedError:
                self._layout = None
        raise self._restless()

    def _ask(self, questions: Sequence[Question]) -> Any:
        return self._database.again(lambda connection: ask(connection, self.name, questions))

    def _restless(self) -> RuntimeError:
        return RuntimeError(
            f"PostgresIndex {self.name!r} was replaced {SWAPS} times during one search."
        )

    # ------------------------------------------------------------------ writing

    def add(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        """Add objects, all or none, with class labels and columns of metadata to filter by.

        While an index is built or replaced, adding waits.
        """
        rows, columns = rows_of(self.metric, points, ids, labels, meta)
        with self._writing(shared=True) as connection:
            layout = self._stored(connection)
            if layout is not None and layout.holds(points) and set(columns) <= set(layout.columns):
                return self._insert(connection, layout, rows)
        with self._writing() as connection:
            layout = self._stored(connection)
            if layout is None:
                layout = Layout.fitted(self.name, columns, self.metric, points, None)
                layout = layout.holding(points)
                create_table(connection, layout)
                enter(connection, self.name, layout)
            elif not layout.holds(points):
                layout = self._widened(connection, layout, points)
            if not set(columns) <= set(layout.columns):
                layout = replace(layout, columns=tuple(sorted({*layout.columns, *columns})))
                enter(connection, self.name, layout)
            return self._insert(connection, layout, rows)

    def _insert(self, connection: Connection[Any], layout: Layout, rows: Rows) -> None:
        try:
            copy_rows(connection, layout, rows)
        except errors.UniqueViolation as error:
            raise ValueError(
                f"PostgresIndex.add: an id is in the index already: {error.diag.message_detail} "
                "Nothing was added; remove it first."
            ) from error

    def _widened(self, connection: Connection[Any], layout: Layout, points: Points) -> Layout:
        """Rewrite the table with room for objects unlike all before them."""
        new = replace(layout.holding(points), table=Layout.new_table(self.name))
        new = load(connection, new, lambda: stored_rows(connection, layout))
        sample = next(stored_rows(connection, layout, SAMPLE), None)
        if new.breadth is not None and sample is not None:
            Graph().create(connection, new)
            new = with_breadth(connection, new, sample, 10, self.recall)
        swap(connection, self.name, new)
        return new

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove objects, all or none."""
        wanted = {as_text(value) or "" for value in ids}
        with self._writing(shared=True) as connection:
            layout = self._stored(connection)
            gone = set()
            if layout is not None:
                query = sql.SQL("DELETE FROM {} WHERE id = ANY(%s) RETURNING id")
                values = [name for name in wanted if storable(name)]
                rows = connection.execute(query.format(identifier(layout.table)), (values,))
                gone = {name for (name,) in rows.fetchall()}
            absent = sorted(map(repr, wanted - gone))
            if absent:
                raise ValueError(
                    f"PostgresIndex.remove: {len(absent)} of {len(wanted)} ids are not in the "
                    f"index, such as {absent[0]}; nothing was removed."
                )

    def build(self, k: int = 10, graph: Graph | None = None) -> PostgresIndex:
        """Build a graph beside the table that others search, tune it, and put it in its place.

        The weight of the class side is chosen on a sample, the breadth of the search on all
        objects: 200 of them are searched for, each without itself, until the share ``recall`` of
        their ``k`` nearest is found.
        """
        with self._writing(building=True) as connection:
            old = self._stored(connection)
            sample = None if old is None else next(stored_rows(connection, old, SAMPLE), None)
            if old is None or sample is None:
                raise ValueError(f"PostgresIndex {self.name!r} is empty; add objects, then build.")
            blocks = functools.partial(stored_rows, connection, old)
            self._plan(old.columns, sample, blocks, k, graph).carry_out(connection)
        return self

    def _plan(
        self,
        columns: tuple[str, ...],
        sample: Rows,
        blocks: Callable[[], Iterable[Rows]],
        k: int,
        graph: Graph | None,
    ) -> Plan:
        check_number("PostgresIndex.build", "k", k, 1, whole=True)
        graph = Graph() if graph is None else graph
        return Plan(self.name, self.metric, columns, sample, blocks, k, self.recall, graph)

    def replace(
        self,
        points: Points,
        ids: Sequence[Any],
        labels: ArrayLike | None = None,
        meta: Mapping[str, ArrayLike] | None = None,
        *,
        k: int = 10,
        graph: Graph | None = None,
    ) -> PostgresIndex:
        """Put these objects, with a graph, in the place of all others, whatever their metric."""
        rows, columns = rows_of(self.metric, points, ids, labels, meta)
        plan = self._plan(columns, rows.sample(SAMPLE), lambda: [rows], k, graph)
        with self._writing(building=True) as connection:
            plan.carry_out(connection)
        return self

    def drop(self) -> None:
        """Remove the index from the database, whatever its metric."""
        with self._writing(building=True) as connection:
            table = forget(connection, self.name)
            if table is not None:
                drop_table(connection, table)

    def _stored(self, connection: Connection[Any]) -> Layout | None:
        return read_layout(connection, self.name, self.metric)

    @contextmanager
    def _writing(
        self, *, shared: bool = False, building: bool = False
    ) -> Iterator[Connection[Any]]:
        """Lend a connection in a transaction that holds the index's lock.

        Adding and removing share the lock. What changes the table has it alone, and a second
        builder is turned away at once.
        """
        with self._database.using() as connection:
            with connection.transaction():
                create_registry(connection)
            with connection.transaction():
                if building and not _locked(connection, "try_", f"build {self.name}"):
                    raise RuntimeError(
                        f"PostgresIndex {self.name!r} is being built by another process; wait "
                        "until it is done. Searches go on meanwhile."
                    )
                _locked(connection, "", f"change {self.name}", "_shared" if shared else "")
                yield connection


def _locked(connection: Connection[Any], kind: str, what: str, shared: str = "") -> bool:
    """Take a lock until the end of the transaction, and return whether it was to be had."""
    key = int.from_bytes(hashlib.sha256(what.encode()).digest()[:8], "big", signed=True)
    statement = f"SELECT pg_{kind}advisory_xact_lock{shared}(%s)"
    row = connection.execute(statement, (key,)).fetchone()
    return row is None or row[0] is not False
