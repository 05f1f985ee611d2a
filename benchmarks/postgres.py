"""Time PostgresIndex on a real server, and search it while others add rows.

The server is started here (tests/postgres_server.py), listens on a socket in a folder of its own
and goes away afterwards. Queries are new objects from the same distribution; recall is against
exact float64 distances. Times are of ``index.search`` of one query, all of it: vector, one
exchange with the server by a prepared statement, ranking of the candidates in float64.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from postgres_server import Server

from nearkin import Metric, Points
from nearkin.index import PostgresIndex, Where

K_NEAREST = 10


class Study:
    """Objects of M classes in some clusters (1: a single cloud), and queries like them."""

    def __init__(self, dim: int, n_clusters: int, n_classes: int = 3, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.dim, self.n_classes = dim, n_classes
        self.centers = 2.0 * self.rng.normal(size=(n_clusters, dim)) * (n_clusters > 1)
        Q = self.rng.exponential(size=(n_classes, n_classes)) * dim / 2
        names = np.array([f"c{i}" for i in range(n_classes)])
        self.metric = Metric(self.rng.exponential(size=dim), Q + Q.T, names)

    def points(self, n: int) -> Points:
        x = self.centers[self.rng.integers(0, len(self.centers), n)]
        x = x + self.rng.normal(size=(n, self.dim))
        return Points(x, self.rng.dirichlet([0.3] * self.n_classes, n))


def true_limits(metric: Metric, queries: Points, items: Points, k: int) -> np.ndarray:
    """Return the distance of the k-th nearest item of each query, in float64."""
    blocks = [metric.distances(queries[i : i + 25], items) for i in range(0, len(queries), 25)]
    limits = [np.partition(d, k - 1, axis=1)[:, k - 1] for d in blocks]
    return np.concatenate(limits)


def recall(found, limits: np.ndarray) -> float:
    return float(np.mean(found.distances <= limits[:, None] * (1 + 1e-12)))


def timed(index: PostgresIndex, queries: Points, where: Where | None = None) -> tuple[float, float]:
    """Return the median and the 95th percentile of the time of a query, in ms."""
    index.search(queries[0], K_NEAREST, where)  # connect, prepare
    times = []
    for i in range(len(queries)):
        start = time.perf_counter()
        index.search(queries[i], K_NEAREST, where)
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times)), float(np.percentile(times, 95))


def measure(url: str, n: int, dim: int, n_clusters: int, n_queries: int, target: float) -> None:
    study = Study(dim, n_clusters)
    items, queries = study.points(n), study.points(n_queries)
    limits = true_limits(study.metric, queries, items, K_NEAREST)
    ids = np.arange(n)
    meta = {"group": ids % 100}
    kind = "one cloud" if n_clusters == 1 else f"{n_clusters} clusters"
    with PostgresIndex(study.metric, url, f"bench {n_clusters}", recall=target) as index:
        start = time.perf_counter()
        index.add(items, ids, meta=meta)
        loaded = time.perf_counter() - start
        exact, exact_95 = timed(index, queries[:20])
        exact_recall = recall(index.search(queries[:20], K_NEAREST), limits[:20])
        print(f"| {kind} | exact, no graph | {loaded:.0f} s to load | {exact_recall:.4f} "
              f"| {exact:.1f} | {exact_95:.1f} |", flush=True)  # fmt: skip
        start = time.perf_counter()
        index.build()
        built = time.perf_counter() - start
        found = recall(index.search(queries, K_NEAREST), limits)
        middle, slow = timed(index, queries)
        breadth = index._layout.breadth
        print(f"| {kind} | graph, breadth {breadth} | {built:.0f} s to build | {found:.4f} "
              f"| {middle:.2f} | {slow:.2f} |", flush=True)  # fmt: skip
        few = Where(only={"group": ["7"]})
        part = np.flatnonzero(ids % 100 == 7)
        few_limits = true_limits(study.metric, queries[:20], items[part], K_NEAREST)
        found = recall(index.search(queries[:20], K_NEAREST, few), few_limits)
        middle, slow = timed(index, queries[:20], few)
        print(f"| {kind} | 1 % allowed | | {found:.4f} | {middle:.1f} | {slow:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--recall", type=float, default=0.99)
    parser.add_argument("--clusters", type=int, nargs="*", default=[200, 1])
    parser.add_argument("--progress", action="store_true")
    arguments = parser.parse_args()
    if arguments.progress:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    folder = Path(tempfile.mkdtemp(prefix="nk"))
    server = Server(folder)
    try:
        server.create()
        print(f"{arguments.rows} objects, {arguments.dim} features, M = 3, k = {K_NEAREST}\n")
        print("| data | search | once | recall | median ms | 95 % ms |\n|---|---|---|---|---|---|")
        for n_clusters in arguments.clusters:
            measure(server.url, arguments.rows, arguments.dim, n_clusters,
                    arguments.queries, arguments.recall)  # fmt: skip
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
