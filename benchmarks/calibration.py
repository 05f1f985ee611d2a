"""Are the probabilities right? P(similar) against ratings of new objects of the synthetic study.

``python benchmarks/calibration.py --models 6``: on each model every method is fitted to the
training objects and calibrated by object folds within them; what it then says of the test objects,
against the database, is compared with their ratings, which nothing has seen.
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit

import nearkin as nk
from nearkin.calibration import log_loss, reliability
from nearkin.experiments.synthetic import draw_study
from nearkin.fitting import named_methods
from nearkin.spread import Spread

FRACTIONS = (0.05, 0.15)


def measure(study, ratings, method):
    """Return predictions by kind, and what was rated."""
    X, y = study.train
    est = method.fit(X, y, ratings)
    metric, points = est.metric_, est.points_
    d = metric.distances(metric.points(study.queries), points)
    found = nk.calibrate(est, X, y, ratings)
    said = {"nearkin": found.similar(d, Spread.of(metric, points)).ravel()}
    if hasattr(est, "thresholds_"):
        said["ordinal model alone"] = expit(-(d * d + est.thresholds_[-1])).ravel()
    said["base rate"] = np.full(d.size, float((ratings.level == 3).mean()))
    return said, (study.query_levels == 3).ravel().astype(float), found.report["chosen"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--methods", nargs="+", default=list(named_methods()))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| ratings | method | P from | Brier | log loss | mean P | rated similar | chosen |")
    print("|---|---|---|---|---|---|---|---|")
    for fraction in FRACTIONS:
        for name in options.methods:
            scores, chosen, pooled, truth = {}, [], {}, []
            for seed in range(options.models):
                rng = np.random.default_rng(seed)
                study = draw_study(rng)
                method = named_methods()[name]
                said, similar, choice = measure(
                    study, study.training_ratings(fraction, rng), method
                )
                chosen.append(choice)
                truth.append(similar)
                for kind, p in said.items():
                    row = (
                        np.mean((p - similar) ** 2),
                        log_loss(p, similar, np.ones(len(p))),
                        p.mean(),
                        similar.mean(),
                    )
                    scores.setdefault(kind, []).append(row)
                    pooled.setdefault(kind, []).append(p)
            counts = ", ".join(f"{c} {chosen.count(c)}" for c in sorted(set(chosen)))
            for kind, rows in scores.items():
                cells = " | ".join(f"{value:.4f}" for value in np.mean(rows, axis=0))
                print(f"| {fraction:.0%} | {name} | {kind} | {cells} | {counts} |", flush=True)
            if name.startswith("hybrid") and fraction == FRACTIONS[-1]:
                for kind in ("ordinal model alone", "nearkin"):
                    table = reliability(np.concatenate(pooled[kind]), np.concatenate(truth))
                    pairs = (f"{row['predicted']:.3f}/{row['observed']:.3f}" for row in table)
                    print(f"    {name}, {kind}: predicted/observed " + " ".join(pairs), flush=True)


if __name__ == "__main__":
    main()
