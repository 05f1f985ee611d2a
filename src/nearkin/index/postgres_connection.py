"""A connection to PostgreSQL with pgvector: made when needed, made again, never printed whole."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Connection, errors
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.types import TypeInfo

OLDEST_PGVECTOR = (0, 8)  # the first with scans that go on until there are enough rows
EXAMPLE = "postgresql://user:password@host:5432/database"


class IndexUnavailableError(ConnectionError):
    """The server cannot be reached, or went away."""


class Database:
    """One connection at a time, opened when it is first used and again after it broke.

    Threads take turns. A url is kept to itself, for it may hold a password.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection[Any] | None = None
        self._lock = threading.RLock()
        self.place = self._described()

    def _described(self) -> str:
        """Return where the url points to, without what must stay secret."""
        try:
            parts = conninfo_to_dict(self._url)
        except errors.Error:
            parts = None
        if parts is None:  # outside of the handler, so that no traceback shows the url
            raise ValueError(f"PostgresIndex: the url cannot be read; expected {EXAMPLE}.")
        self._secrets = [str(v) for k, v in parts.items() if "password" in k and v]
        return f"database {parts.get('dbname', '')!r} at {parts.get('host', 'localhost')}"

    @contextmanager
    def using(self) -> Iterator[Connection[Any]]:
        """Lend the connection; what is left open in it afterwards is rolled back."""
        with self._lock:
            connection = self._open()
            try:
                yield connection
            except errors.OperationalError as error:
                if connection.broken or connection.closed:
                    raise self._unavailable("went away", error) from None
                raise
            finally:
                if not connection.closed:
                    connection.rollback()

    def again(self, work: Callable[[Connection[Any]], Any]) -> Any:
        """Do work that changes nothing; once more if an idle connection turns out to be dead."""
        fresh = self._connection is None
        try:
            with self.using() as connection:
                return work(connection)
        except IndexUnavailableError:
            if fresh:
                raise
        with self.using() as connection:
            return work(connection)

    def _open(self) -> Connection[Any]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        failure: Exception | None = None
        try:
            connection = psycopg.connect(self._url, autocommit=True)
        except errors.OperationalError as error:
            failure = error
        if failure is not None:
            raise self._unavailable("does not answer", failure)
        try:
            self._require_pgvector(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _require_pgvector(self, connection: Connection[Any]) -> None:
        row = connection.execute(
            "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        ).fetchone()
        if row is None:
            try:
                connection.execute("SELECT pg_advisory_lock(20110526)")  # one at a time
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute("SELECT pg_advisory_unlock(20110526)")
            except (errors.InsufficientPrivilege, errors.FeatureNotSupported) as error:
                raise RuntimeError(
                    f"PostgresIndex: {self.place} has no pgvector ({str(error).splitlines()[0]}); "
                    "ask its administrator for CREATE EXTENSION vector."
                ) from error
            self._require_pgvector(connection)
            return
        if tuple(int(n) for n in row[0].split(".")[:2]) < OLDEST_PGVECTOR:
            raise RuntimeError(
                f"PostgresIndex: {self.place} has pgvector {row[0]}; 0.8 or newer is needed "
                "(ALTER EXTENSION vector UPDATE)."
            )
        register_vectors(connection)

    def _unavailable(self, what: str, error: Exception) -> IndexUnavailableError:
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return IndexUnavailableError(
            f"PostgresIndex: {self.place} {what}: {text}. Check that the server runs and that the "
            "url is right; nothing that was under way has been stored."
        )

    def close(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


class Vector:
    """A float32 vector as a parameter of a query."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values


def register_vectors(connection: Connection[Any]) -> None:
    """Teach a connection to send a ``Vector`` as pgvector's binary format."""
    found = TypeInfo.fetch(connection, "vector")
    if found is None:
        raise RuntimeError("PostgresIndex: the type vector is not on the connection's search path.")
    type_oid = found.oid

    class VectorDumper(Dumper):
        format = Format.BINARY
        oid = type_oid

        def dump(self, obj: Any) -> bytes:
            return vector_bytes(obj.values[None])[0]

    connection.adapters.register_dumper(Vector, VectorDumper)


def vector_bytes(values: NDArray[Any]) -> list[bytes]:
    """Return rows of numbers in pgvector's binary format: dimension, 0, float32s."""
    n, width = values.shape
    head = struct.pack(">hh", width, 0)
    data, step = np.ascontiguousarray(values, dtype=">f4").tobytes(), 4 * width
    return [head + data[i * step : (i + 1) * step] for i in range(n)]
