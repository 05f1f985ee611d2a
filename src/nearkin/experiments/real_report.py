"""The results of an evaluation, as one dictionary and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearkin.experiments.figures import scores_by_method
from nearkin.experiments.real import (
    Evaluation,
    ceiling,
    class_frequencies,
    complaints,
    differences,
    extremes,
    rating_frequencies,
    summary,
)
from nearkin.experiments.report import write_results, write_table


def as_dict(found: Evaluation) -> dict[str, Any]:
    """Return all tables of an evaluation by name."""
    return {
        "ratings": found.study.name,
        "n_objects": len(found.study.objects),
        "n_ratings": len(found.study.ratings),
        "n_features": found.n_features[0],
        "n_features_kept": found.n_features[1],
        "k": found.k,
        "summary": summary(found),
        "differences": differences(found),
        "queries": extremes(found),
        "rating_frequencies": rating_frequencies(found.study),
        "class_frequencies": class_frequencies(found.study),
        "noise_ceiling": ceiling(found),
        "complaints": complaints(found),
    }


def write_report(folder: Path, found: Evaluation) -> list[Path]:
    """Write results.parquet, summary.csv, differences.csv and the figure; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    n = len(found.study.objects)
    columns = {
        "id": np.tile(found.study.objects.ids.astype(str), len(found.scores)),
        "method": np.repeat(list(found.scores), n),
        "ndcg": np.concatenate(list(found.scores.values())),
    }
    files = [
        write_results(folder / "results.parquet", columns),
        write_table(folder / "summary.csv", summary(found)),
        write_table(folder / "differences.csv", differences(found)),
    ]
    drawn = {method: found.scores[method] for method in found.complete()}
    if drawn:
        quantity = f"NDCG@{found.k} (mean, one standard deviation of queries)"
        title = f"{found.study.name}: {n} objects"
        files += scores_by_method(folder / "figure", drawn, quantity, title)
    return files
