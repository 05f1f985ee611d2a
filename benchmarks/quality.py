"""Compare nearkin with its peers by NDCG@10 on objects not seen: ``make bench-quality``.

Same data, features (standardised), folds and scoring for all; every fit has a process of its own
and a time limit. What was finished is kept in ``--out``, so an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import joblib
import limited
import machine
import numpy as np
from cases import all_cases
from peers import peer_methods
from quality_table import Results, write_tables

import nearkin as nk
from nearkin.experiments.methods import SELECT, estimator
from nearkin.experiments.real import METHODS
from nearkin.experiments.resumable import part_file, run_parts
from nearkin.preparation import paper_preparation
from nearkin.protocols import FoldScore, score_fold

COLUMNS = ("part", "fold", "query", "method", "ndcg", "failure", "seconds")
GIVE_UP = 2  # time-outs of a method on a data set, after which it is not tried there again
SELECT_TIMES = 10  # the limit of the others
LEARNS_FROM = {"Euclidean": "nothing", "OR": "ratings", "CO": "ratings", "NCA": "labels"}
PACKAGES = ("numpy", "scikit-learn", "metric-learn", "pylidc")


def all_methods(seed=0):
    """Return every row of the table: method, and what it learns from."""
    names = sorted(METHODS, key=lambda name: name != "Euclidean")
    ours = {name: (estimator(name, seed), LEARNS_FROM.get(name, "both")) for name in names}
    return {**ours, SELECT: (estimator(SELECT, seed), "both"), **peer_methods(seed)}


def attempt(method, X, y, ratings, test):
    """Return the score of a fold; whatever a method raises is its result."""
    started = time.perf_counter()
    try:
        return score_fold(method, X, y, ratings, test, 10, paper_preparation())
    except Exception as error:
        return failure(test, error, time.perf_counter() - started)


def failure(test, error, seconds):
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return FoldScore(test, np.full(len(test), np.nan), (), seconds, said)


def attempt_in_time(limit, timeouts, name, method, *data):
    """Return the score of a fold, or a failure; do not begin what took too long before."""
    test = data[-1]
    limit *= SELECT_TIMES if name == SELECT else 1
    if timeouts[name] >= GIVE_UP:
        return failure(
            test, TimeoutError(f"over {limit:g} s on {GIVE_UP} fits, then not tried again"), 0.0
        )
    try:
        return limited.call(limit, attempt, method, *data)
    except TimeoutError as error:
        timeouts[name] += 1
        return failure(test, error, limit)
    except RuntimeError as error:
        return failure(test, error, limit)


def score_part(case, part, methods, limit, timeouts):
    """Return the rows of a part: every query by every method."""
    X, y, ratings, folds = case.part(part)
    rows = []
    for fold, test in enumerate(folds):
        for name, (method, _) in methods.items():
            score = attempt_in_time(limit, timeouts, name, method, X, y, ratings, test)
            seconds = score.seconds / len(test)
            for query, value in zip(score.queries, score.ndcg, strict=True):
                rows.append((part, fold, query, name, float(value), score.error, seconds))
    return rows


def run_case(case, methods, settings, folder, jobs, limit):
    """Score what is not scored yet, and return all of a data set's scores."""
    timeouts = Counter()
    started = time.perf_counter()
    # threads wait for the processes that do the work, and share the count of time-outs
    with joblib.parallel_config(backend="threading"):
        for done in run_parts(
            folder / "parts",
            settings,
            COLUMNS,
            lambda part: partial(score_part, case, part, methods, limit, timeouts),
            case.n_parts,
            jobs,
        ):
            note(f"\r{case.name}: {done} of {case.n_parts} parts", end="")
    note(f", {time.perf_counter() - started:.0f} s")
    return read_results(case, folder)


def read_results(case, folder):
    rows = []
    for part in range(case.n_parts):
        with part_file(folder / "parts", part).open(newline="") as file:
            rows += list(csv.DictReader(file))
    return Results.of(case, rows)


def source_digest():
    """Return what changes when the code that is measured does: other code, other results."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(Path(nk.__file__).parent.rglob("*.py")) + sorted(here.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:10]


def note(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("NEARKIN_DATA"), help="shapes60, ...")
    parser.add_argument("--models", type=int, default=20, help="of the synthetic study")
    parser.add_argument("--draws", type=int, default=5, help="of LIDC and of weak labels")
    parser.add_argument("--folds", type=int, default=10, help="of real objects; 0: leave one out")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one fit")
    parser.add_argument("--jobs", type=int, default=2, help="fits at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", help="rows of the table")
    parser.add_argument("--select", action="store_true", help="and what nearkin.select chooses")
    parser.add_argument("--cases", nargs="+", help="beginnings of names of data sets")
    parser.add_argument("--out", type=Path, default=Path("build/quality"))
    return parser.parse_args()


def main():
    options = arguments()
    limited.preload("metric_learn", "nearkin.experiments.real", "sklearn.manifold")
    methods = all_methods(options.seed)
    wanted = options.methods or [name for name in methods if name != SELECT or options.select]
    methods = {name: methods[name] for name in wanted}
    cases, notes = all_cases(
        options.data, options.models, options.draws, options.folds, options.seed
    )
    if options.cases:
        cases = [case for case in cases if case.name.startswith(tuple(options.cases))]
    settings = {"code": source_digest(), "methods": list(methods), "limit": options.limit}
    settings |= {"seed": options.seed, "folds": options.folds}
    key = hashlib.sha256(repr(settings).encode()).hexdigest()[:10]
    found = []
    for case in cases:
        folder = options.out / key / case.name.replace(" ", "-").replace(",", "")
        found.append(run_case(case, methods, settings, folder, options.jobs, options.limit))
    sizes = ("models", "draws", "folds", "limit", "jobs", "seed")
    used = " ".join(f"--{name} {getattr(options, name):g}" for name in sizes)
    print(f"`make bench-quality OPTIONS='{used}'`, {machine.describe(*PACKAGES)}\n")
    write_tables(found, {name: source for name, (_, source) in methods.items()}, options.limit)
    for text in notes:
        print(f"- {text}")


if __name__ == "__main__":
    main()
