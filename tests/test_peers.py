"""What ``make bench-quality`` adds to the peers, without the peers: inputs, scoring, the table."""

import importlib
import operator
import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import nearkin as nk
from nearkin.experiments.synthetic import draw_study
from nearkin.protocols import object_folds, score_fold

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def peers():
    return importlib.import_module("peers")


@pytest.fixture
def tables():
    return importlib.import_module("quality_table")


@pytest.fixture
def quality():
    return importlib.import_module("quality")


RATINGS = nk.Ratings([0, 1, 0, 0, 2, 1], [1, 0, 2, 2, 0, 2], [3, 3, 1, 1, 2, 2])


def test_a_pair_that_was_rated_often_counts_once(peers):
    a, b, level = peers.mean_levels(RATINGS)
    assert list(zip(a, b, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_allclose(level, [3, 4 / 3, 2])
    a, b, sign = peers.signed_pairs(RATINGS)
    assert list(zip(a, b, sign, strict=True)) == [(0, 1, 1), (0, 2, -1)]
    assert len(peers.signed_pairs(RATINGS, cap=1)[0]) == 1


def test_quadruplets_name_the_nearer_pair_first(peers):
    level = {(0, 1): 3, (0, 2): 4 / 3, (1, 2): 2}
    found = peers.quadruplets(RATINGS, 200, seed=3)
    assert found.shape == (200, 4)
    assert all(level[a, b] > level[c, d] for a, b, c, d in found)
    assert len({tuple(row) for row in found}) == 3
    np.testing.assert_array_equal(found, peers.quadruplets(RATINGS, 200, seed=3))


def test_majorised_steps_are_guttmans_and_lower_the_stress_of_known_pairs(peers):
    rng = np.random.default_rng(0)
    truth, Z = rng.normal(size=(2, 12, 3))
    target = cdist(truth, truth)
    target[np.triu(rng.random((12, 12)) < 0.3, k=1)] = np.nan
    target += np.where(np.isnan(target.T), np.nan, 0)
    known = ~np.isnan(target)
    np.fill_diagonal(known, False)

    # one step by the Guttman transform, written out: z_i = mean_j (z_j + t_ij (z_i - z_j) / d_ij)
    by_hand = np.zeros_like(Z)
    for i in range(12):
        for j in range(12):
            if i != j:
                d = np.linalg.norm(Z[i] - Z[j])
                t = target[i, j] if known[i, j] else d
                by_hand[i] += t * (Z[i] - Z[j]) / d / 12
    np.testing.assert_allclose(peers.majorised(Z, target, known, 1), by_hand)

    def stress(Z):
        return np.sum((cdist(Z, Z) - target)[known] ** 2)

    values = [stress(peers.majorised(Z, target, known, n)) for n in (0, 1, 5, 50, 500)]
    assert sorted(values, reverse=True) == values
    assert values[-1] < 0.01 * values[0]


def test_scaling_puts_rated_objects_where_ratings_do_and_new_ones_where_features_do(peers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    a, b = np.triu_indices(36, k=1)  # four objects are never rated
    level = 3 - np.digitize(np.linalg.norm(X[a] - X[b], axis=1), [1.2, 2.4])
    est = peers.ScalingPeer(n_components=2).fit(X, None, nk.Ratings(a, b, level))
    new = est.metric_.points(X)
    np.testing.assert_array_equal(est.points_[36:], new[36:])
    assert not np.allclose(est.points_[:36], new[:36])
    d = est.metric_.distances(new, est.points_)
    assert np.corrcoef(d.ravel(), cdist(X, X).ravel())[0, 1] > 0.9


def test_a_label_learner_is_scored_by_the_protocol(peers):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 3)), np.repeat(["p", "q", "r"], 8)
    a, b = np.triu_indices(24, k=1)
    ratings = nk.Ratings(a, b, np.where(y[a] == y[b], 3, 1))
    X[:, 0] += 30 * (y == "p") - 30 * (y == "q")
    peer = peers.LabelPeer(partial(NeighborhoodComponentsAnalysis, random_state=0))
    score = score_fold(peer, X, y, ratings, object_folds(24, 4)[0], 5)
    np.testing.assert_allclose(score.ndcg, 1.0)


def test_a_synthetic_study_scores_as_its_own_experiment_does():
    held_out = importlib.import_module("cases").held_out
    rng = np.random.default_rng(5)
    study = draw_study(rng, n_objects=50, n_train=30)
    ratings = study.training_ratings(0.3, rng)
    X, y, everything, (test,) = held_out(study, ratings)
    est = nk.OrdinalRegression()
    score = score_fold(est, X, y, everything, test, 10)
    fitted = est.fit(*study.train, ratings)
    d = fitted.metric_.distances(fitted.metric_.points(study.queries), fitted.points_)
    np.testing.assert_allclose(score.ndcg, nk.ndcg(d, study.query_levels))


class Broken(nk.Euclidean):
    def fit(self, X, y=None, ratings=None):
        raise ZeroDivisionError("no\n reason")


def test_what_a_method_raises_is_its_result(quality):
    rng = np.random.default_rng(0)
    X, ratings = rng.normal(size=(3, 2)), nk.Ratings([0, 1], [1, 2], [3, 1])
    score = quality.attempt(Broken(), X, None, ratings, np.array([2]))
    assert score.error == "ZeroDivisionError: no reason"
    assert np.isnan(score.ndcg).all()


def test_a_method_that_takes_too_long_is_ended_and_not_tried_again(quality, monkeypatch):
    calls = []

    def late(limit, *args):
        calls.append(limit)
        raise TimeoutError(f"over {limit:g} s")

    monkeypatch.setattr(quality.limited, "call", late)
    X, ratings = np.eye(4), nk.Ratings([0, 1], [1, 2], [3, 1])
    folds = [np.array([i]) for i in range(4)]
    case = SimpleNamespace(part=lambda _: (X, None, ratings, folds))
    methods = {"slow": (Broken(), "nothing")}
    rows = quality.score_part(case, 7, methods, 5.0, quality.Counter())
    assert calls == [5.0, 5.0]
    assert [row[5] for row in rows] == ["TimeoutError: over 5 s"] * 2 + [
        "TimeoutError: over 5 s on 2 fits, then not tried again"
    ] * 2
    assert [row[:4] for row in rows] == [(7, i, i, "slow") for i in range(4)]


def test_a_call_ends_in_time_or_says_that_it_died():
    limited = importlib.import_module("limited")
    assert limited.call(60, operator.add, 1, 2) == 3
    with pytest.raises(TimeoutError, match=r"over 0\.2 s"):
        limited.call(0.2, time.sleep, 60)
    with pytest.raises(RuntimeError, match="died, exit code 3"):
        limited.call(60, os._exit, 3)


def scored(method, values, failures=(), part="0"):
    said = dict(failures)
    for at, value in enumerate(values):
        row = {"part": part, "fold": str(at), "query": str(at), "method": method}
        yield row | {"ndcg": str(value), "failure": said.get(at, "")}


def result(tables, unit="objects"):
    best = [0.9, 0.8, 0.7, 0.8]
    rows = [
        *scored("Hybrid()", best),
        *scored("near", [0.8, 0.9, 0.7, 0.8]),
        *scored("far", [0.5, 0.4, 0.3, 0.4]),
        *scored("broken", [np.nan] * 4, dict.fromkeys(range(4), "ValueError: singular")),
        *scored("half", [0.9, 0.9, np.nan, 0.9], {2: "ValueError: singular"}),
        *scored("slow", [np.nan] * 4, dict.fromkeys(range(4), "TimeoutError: over 20 s")),
    ]
    case = SimpleNamespace(name="pairs", about="four objects", unit=unit)
    return tables.Results.of(case, rows)


def test_cells_show_leaders_failures_and_time_outs(tables):
    found, notes = result(tables), tables.Footnotes()
    assert found.leaders() == {"Hybrid()", "near"}
    cells = {name: tables.score_cell(found, name, found.leaders(), notes) for name in found.values}
    assert cells == {
        "Hybrid()": "**0.800 ± 0.041**",
        "near": "**0.800 ± 0.041**",
        "far": "0.400 ± 0.041",
        "broken": "fails 4 of 4 [1]",
        "half": "fails 1 of 4, else 0.900 [1]",
        "slow": "time-out 4 of 4 [2]",
    }
    assert notes.texts == ["ValueError: singular", "TimeoutError: over 20 s"]
    assert tables.difference_cell(found, "far") == "-0.400 ± 0.000"
    assert tables.difference_cell(found, "half") == "-"


def test_a_draw_counts_once_by_its_mean(tables):
    rows = [
        *scored("Hybrid()", [0.5, 0.7], part="0"),
        *scored("Hybrid()", [0.7, np.nan], part="10"),
        *scored("Hybrid()", [0.9, 1.0], part="2"),
    ]
    case = SimpleNamespace(name="draws", about="", unit="draws")
    found = tables.Results.of(case, rows)
    np.testing.assert_allclose(found.values["Hybrid()"], [0.6, 0.95, 0.7])
    assert found.n_fits == 6


def test_the_tables_are_markdown_with_every_method_and_note(tables, capsys):
    found = result(tables)
    sources = dict.fromkeys(found.values, "ratings") | {"absent": "labels"}
    tables.write_tables([found], sources, 20.0)
    text = capsys.readouterr().out
    assert "| method | learns from | pairs |" in text
    assert "| absent | labels | - |" in text
    assert "- [2] `TimeoutError: over 20 s`" in text
    assert "| far | -0.400 ± 0.000 |" in text
    assert "four objects; standard errors over objects" in text
    long = "x" * 500
    notes = tables.Footnotes()
    assert notes.number(long) == 1
    assert len(notes.texts[0]) < 220


def test_data_that_are_not_there_are_left_out_with_a_note(tmp_path):
    all_cases = importlib.import_module("cases").all_cases
    for data in (None, tmp_path):
        cases, notes = all_cases(data, models=2, draws=1, folds=10, seed=0)
        assert [case.name for case in cases] == [
            "synthetic, 5 %",
            "synthetic, 15 %",
            "weak labels",
            "LIDC, derived",
        ]
        assert [note.split(" left out")[0] for note in notes] == [
            "shapes60, visual",
            "shapes60, conceptual",
            "objects92",
        ]
