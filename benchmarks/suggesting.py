"""Suggested pairs against random ones on a study where all pairs are rated.

``python benchmarks/suggesting.py STUDY_DIR --ratings conceptual`` holds out a fifth of the objects
in turn and deals out one rating of each pair of the others, the first at random, the next by either
strategy. It prints the NDCG of the held-out objects and the paired differences over folds.
"""

import argparse
import warnings

import numpy as np

from nearkin.data import Ratings
from nearkin.evaluation import ndcg_of_gains, paired_difference
from nearkin.fitting import named_methods
from nearkin.protocols import gains_between, object_folds
from nearkin.study import read_study
from nearkin.suggestion import suggest_pairs

SHARES = (0.06, 0.09, 0.12, 0.16, 0.20, 0.25, 0.30, 0.40)


def one_rating_each(ratings, n, rng):
    """Return a matrix of levels: of each pair one rating at random, 0 where there is none."""
    levels = np.zeros((n, n), dtype=int)
    order = rng.permutation(len(ratings))
    levels[ratings.a[order], ratings.b[order]] = ratings.level[order]
    return np.where(np.triu(levels.T, 1) > 0, np.triu(levels.T, 1), np.triu(levels, 1))


def grow(suggest, method, x, y, levels, rng):
    """Yield the fit at each size; the first ratings are the same for both strategies."""
    m = len(x)
    pool = np.flatnonzero(levels)
    sizes = [round(share * len(pool)) for share in SHARES]
    rated = np.random.default_rng(0).choice(pool, sizes[0], replace=False)
    est = ratings = None
    for size in sizes:
        more = size - len(rated)
        if more and suggest:
            found = suggest_pairs(est, x, y, ratings, more)
            rated = np.concatenate([rated, found.a * m + found.b])
        elif more:
            new = rng.choice(np.setdiff1d(pool, rated), more, replace=False)
            rated = np.concatenate([rated, new])
        a, b = np.divmod(rated, m)
        ratings = Ratings(a, b, levels[a, b])
        est = named_methods()[method].fit(x, y, ratings)
        yield size, est


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study")
    parser.add_argument("--ratings")
    parser.add_argument("--method", default="hybrid-profiles")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    study = read_study(arguments.study, arguments.ratings)
    X, y, n = study.objects.X, study.objects.y, len(study.objects)
    scores = {"random": [], "suggested": []}
    for repeat in range(arguments.repeats):
        for fold, test in enumerate(object_folds(n, 5, repeat)):
            train = np.setdiff1d(np.arange(n), test)
            rng = np.random.default_rng([repeat, fold])
            levels = one_rating_each(study.ratings.within(train), len(train), rng)
            gains = gains_between(study.ratings, test, train)
            for name, curve in scores.items():
                fits = grow(name == "suggested", arguments.method, X[train], y[train], levels, rng)
                values = []
                for size, est in fits:
                    d = est.metric_.distances(est.metric_.points(X[test]), est.points_)
                    values.append((size, np.nanmean(ndcg_of_gains(d, gains, 10))))
                curve.append(values)
    random, suggested = (np.array(scores[name])[:, :, 1] for name in ("random", "suggested"))
    print(f"{study.name}, {arguments.method}: {len(random)} folds; ratings, random, suggested")
    for at, (size, _) in enumerate(scores["random"][0]):
        lead = paired_difference(suggested[:, at], random[:, at])
        print(f"{size:6d}  {random[:, at].mean():.4f}  {suggested[:, at].mean():.4f}  {lead}")


if __name__ == "__main__":
    main()
