"""``make demo``: the four methods on the paper's synthetic model, and one search explained."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.classifiers import KernelClassifier
from nearkin.evaluation import ndcg
from nearkin.experiments.synthetic import Study, draw_study
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression

FRACTION = 0.15
K_NEAREST = 10


def methods() -> dict[str, Any]:
    """Return the paper's four methods, and the hybrid with OR in the place of CO."""
    kernel = KernelClassifier(random_state=0)
    return {
        "OR": OrdinalRegression(),
        "CO": ConvexOptimization(),
        "NCA": NCA(random_state=0),
        "HYB": Hybrid(learner=ConvexOptimization(), classifier=kernel, class_ridge=0),
        "HYB with OR": Hybrid(classifier=kernel, class_ridge=0),
        "Hybrid()": Hybrid(),
        "+ LatentFeatures": Hybrid(missing=LatentFeatures()),
    }


def evaluate(n_models: int) -> tuple[dict[str, NDArray[np.float64]], Study, Any]:
    """Fit every method on each model; return mean NDCG@10, the last study and its HYB with OR."""
    scores: dict[str, list[float]] = {}
    for seed in range(n_models):
        print(f"\rmodel {seed + 1} of {n_models}", end="", file=sys.stderr, flush=True)
        rng = np.random.default_rng(seed)
        study = draw_study(rng)
        X, y = study.train
        ratings = study.training_ratings(FRACTION, rng)
        for name, estimator in methods().items():
            metric = estimator.fit(X, y, ratings).metric_
            distances = metric.distances(metric.points(study.queries), estimator.points_)
            values = ndcg(distances, study.query_levels, k=K_NEAREST)
            scores.setdefault(name, []).append(float(values.mean()))
    print(file=sys.stderr)
    return {name: np.array(values) for name, values in scores.items()}, study, estimator


def show_scores(scores: dict[str, NDArray[np.float64]]) -> None:
    """Print the table of methods."""
    n = len(scores["OR"])
    print(f"NDCG@10 on {n} models of the paper's appendix, {FRACTION:.0%} of the pairs rated")
    print(f"{'method':<18}{'mean':>7}{'sd':>7}")
    for name, values in scores.items():
        print(f"{name:<18}{values.mean():7.3f}{values.std():7.3f}")


def show_search(study: Study, estimator: Any) -> None:
    """Print the nearest objects of the first query, and why the first is near."""
    metric, database = estimator.metric_, estimator.points_
    query = metric.points(study.queries[:1])
    distances = metric.distances(query, database)[0]
    nearest = np.argsort(distances, kind="stable")[:K_NEAREST]
    u = ", ".join(
        f"class {c}: {share:.2f}" for c, share in zip(metric.classes, query.u[0], strict=True)
    )
    print(f"\nThe {K_NEAREST} objects nearest to query 0 ({u}; its true class: {study.y[100]})")
    print(f"{'object':>7}{'class':>7}{'distance':>10}{'rating':>8}   largest parts of d^2")
    for item in nearest:
        parts = metric.contributions(query, database[item])
        shown = ", ".join(f"{name} {value:.2f}" for name, value in parts.named()[:3])
        label, rating = study.y[item], study.query_levels[0, item]
        print(f"{item:>7}{label:>7}{distances[item]:>10.3f}{rating:>8}   {shown}")
    parts = metric.contributions(query, database[nearest[0]])
    share = 0.0 if parts.class_pairs is None else parts.class_pairs.sum() / parts.total[0]
    print(f"All parts of d^2 sum to it exactly; of object {nearest[0]}'s, {share:.0%} is class.")


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=20, help="models to average over")
    options = parser.parse_args(arguments)
    if options.models < 1:
        parser.error("--models must be 1 or more")
    scores, study, estimator = evaluate(options.models)
    show_scores(scores)
    show_search(study, estimator)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: nothing was written")
