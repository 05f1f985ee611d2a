"""``nearkin evaluate``: the protocol of section 4.2 on any study; nothing leaks, failures show."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import nearkin as nk
from nearkin import selection
from nearkin.cli.main import app
from nearkin.experiments import real
from nearkin.experiments.real import (
    METHODS,
    ceiling,
    class_frequencies,
    complaints,
    differences,
    evaluate_study,
    extremes,
    rating_frequencies,
    summary,
)
from nearkin.experiments.real_report import as_dict, write_report
from nearkin.study import StudyFolder, read_study, write_study


def small_study(seed=0, n=14):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), np.array(["cyst", "other"], dtype=object)[np.arange(n) % 2]
    a, b = np.triu_indices(n, k=1)
    a, b = np.tile(a, 2), np.tile(b, 2)
    d2 = (X[a, 0] - X[b, 0]) ** 2 + (y[a] != y[b]) + 0.3 * rng.normal(size=len(a))
    level = 3 - np.digitize(d2, np.quantile(d2, [0.3, 0.6]))
    rater = np.repeat(["ann", "bob"], len(a) // 2)
    ids = np.array([f"o{i}" for i in range(n)], dtype=object)
    objects = nk.Objects(ids, X, y, ["size", "edge", "depth"])
    return StudyFolder("ratings", objects, nk.Ratings(a, b, level, rater=rater))


class Witness(BaseEstimator):
    """A Euclidean distance that remembers what it was shown."""

    seen: list = []  # noqa: RUF012 - clones must share it

    def fit(self, X, y=None, ratings=None):
        Witness.seen.append((X, y.tolist(), ratings.a, ratings.b, ratings.level))
        est = nk.Euclidean(standardise=False).fit(X)
        self.metric_, self.points_ = est.metric_, est.points_
        return self


def shown_for(study, held_out, monkeypatch):
    monkeypatch.setattr(real, "estimator", lambda method, seed: Witness())
    Witness.seen.clear()
    evaluate_study(study, ["CO"], n_jobs=1)
    return Witness.seen[held_out]


@pytest.mark.parametrize("held_out", [0, 9])
def test_a_held_out_object_has_no_influence_on_learning(held_out, monkeypatch):
    """Its ratings, its label and its features are turned round, and training stays as it was."""
    study = small_study()
    objects, ratings = study.objects, study.ratings
    touched = (ratings.a == held_out) | (ratings.b == held_out)
    level = np.where(touched, 4 - ratings.level, ratings.level)
    X, y = objects.X.copy(), objects.y.copy()
    X[held_out], y[held_out] = [1e3, -1e3, 1e3], "never seen"  # would make all columns one
    changed = StudyFolder(
        "ratings", replace(objects, X=X, y=y), nk.Ratings(ratings.a, ratings.b, level)
    )
    before = shown_for(study, held_out, monkeypatch)
    after = shown_for(changed, held_out, monkeypatch)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    elsewhere = shown_for(study, 3, monkeypatch)[0], shown_for(changed, 3, monkeypatch)[0]
    assert elsewhere[0].shape != elsewhere[1].shape or not np.allclose(*elsewhere)


def test_a_planted_copy_of_the_own_ratings_does_not_help():
    """Ratings are noise; a feature tells, for each object, how similar it was rated on average.

    Fitted to all ratings, such a feature would look useful. Learned without the held-out object's
    ratings it is not: all methods stay at chance, and OR no further above it than Euclidean.
    """
    leads = []
    for seed in range(4):
        study = small_study(seed, n=12)
        rng = np.random.default_rng(seed)
        noise = nk.Ratings(study.ratings.a, study.ratings.b, rng.permutation(study.ratings.level))
        mean = np.array([noise.level[(noise.a == i) | (noise.b == i)].mean() for i in range(12)])
        X = np.c_[study.objects.X, mean]
        objects = replace(study.objects, X=X, feature_names=["size", "edge", "depth", "leak"])
        found = evaluate_study(
            StudyFolder("ratings", objects, noise), ["OR", "Euclidean"], k=5, n_jobs=1
        )
        leads.append(found.difference("OR", "Euclidean").mean)
    assert np.mean(leads) < 0.05


def test_all_methods_and_all_tables():
    found = evaluate_study(small_study(n=9), k=5, n_jobs=1)
    rows = summary(found)
    assert [row["method"] for row in rows] == list(METHODS)
    assert all(row["failed"] == 0 and row["queries"] == 9 for row in rows)
    assert all(0.3 < row["ndcg"] <= 1 for row in rows)
    pairs = {(row["method"], row["minus"]) for row in differences(found)}
    assert len(pairs) == 2 * (len(METHODS) - 1)
    d = found.difference("OR", "HYB")
    assert d.mean == pytest.approx(np.mean(found.scores["OR"] - found.scores["HYB"]))
    (best,) = [row for row in extremes(found) if row["method"] == "OR"]
    assert best["best"] == f"o{np.argmax(found.scores['OR'])}"
    assert best["ndcg_of_worst"] == found.scores["OR"].min()
    assert [row["rater"] for row in ceiling(found)] == ["ann", "bob"]
    assert as_dict(found)["n_features_kept"] == 3


def test_tables_1_and_2_of_the_paper():
    study = small_study()
    ratings = rating_frequencies(study)
    assert [row["rating"] for row in ratings] == ["1 (dissimilar)", "2", "3 (similar)"]
    assert sum(row["frequency"] for row in ratings) == pytest.approx(1.0)
    assert sum(row["count"] for row in ratings) == len(study.ratings)
    y = study.objects.y.copy()
    y[:3] = None
    unknown = StudyFolder("r", replace(study.objects, y=y), study.ratings)
    counts = {row["class"]: row["count"] for row in class_frequencies(unknown)}
    assert counts == {"cyst": 5, "other": 6, "(unknown)": 3}


def test_a_method_that_fails_is_shown_and_not_compared():
    """It used to end the whole evaluation."""
    study = small_study()
    nobody = replace(study.objects, y=np.array([None] * 14, dtype=object))
    found = evaluate_study(
        StudyFolder("ratings", nobody, study.ratings), ["OR", "HYB", "Euclidean"], k=5, n_jobs=1
    )
    rows = {row["method"]: row for row in summary(found)}
    assert rows["HYB"]["failed"] == 14
    assert np.isnan(rows["HYB"]["ndcg"])
    assert rows["OR"]["failed"] == 0
    assert {(row["method"], row["minus"]) for row in differences(found)} == {("OR", "Euclidean")}
    (complaint,) = [row for row in complaints(found) if row["kind"] == "failure"]
    assert (complaint["method"], complaint["folds"]) == ("HYB", 14)
    assert "Hybrid requires y" in complaint["text"]
    assert [row["method"] for row in extremes(found)] == ["OR", "Euclidean"]


def test_a_failure_on_one_fold_excludes_the_method(monkeypatch):
    class Picky(Witness):
        def fit(self, X, y=None, ratings=None):
            if "never" not in y.tolist():
                raise ValueError("never is missing")
            return super().fit(X, y, ratings)

    study = small_study()
    y = study.objects.y.copy()
    y[5] = "never"
    one = StudyFolder("ratings", replace(study.objects, y=y), study.ratings)
    monkeypatch.setattr(real, "estimator", lambda method, seed: Picky())
    found = evaluate_study(one, ["CO"], n_jobs=1)
    assert found.failures("CO") == ["never is missing"]
    assert found.complete() == []
    assert np.isnan(found.scores["CO"]).tolist() == [i == 5 for i in range(14)]


def test_the_number_of_processes_changes_nothing():
    one = evaluate_study(small_study(n=8), ["HYB", "NCA"], k=5, n_jobs=1)
    two = evaluate_study(small_study(n=8), ["HYB", "NCA"], k=5, n_jobs=2)
    for method in one.scores:
        np.testing.assert_array_equal(one.scores[method], two.scores[method])


def test_holding_out_a_share_several_times():
    found = evaluate_study(small_study(), ["CO"], holdout=0.3, repeats=6, k=5, n_jobs=1)
    folds = found.folds["CO"]
    assert [len(fold.queries) for fold in folds] == [4] * 6
    for i in range(14):
        own = [fold.ndcg[fold.queries == i][0] for fold in folds if i in fold.queries]
        assert found.scores["CO"][i] == pytest.approx(np.mean(own) if own else np.nan, nan_ok=True)
    with pytest.raises(ValueError, match="hold out at least one object"):
        evaluate_study(small_study(), ["CO"], holdout=0.999, n_jobs=1)


def test_correlated_features_are_dropped():
    study = small_study()
    X = np.c_[study.objects.X, -5 * study.objects.X[:, 0] + 1]
    objects = replace(study.objects, X=X, feature_names=[*study.objects.feature_names, "copy"])
    longer = StudyFolder("ratings", objects, study.ratings)
    found = evaluate_study(longer, ["CO"], k=5, n_jobs=1)
    assert found.n_features == (4, 3)
    plain = evaluate_study(study, ["CO"], k=5, n_jobs=1)
    np.testing.assert_allclose(found.scores["CO"], plain.scores["CO"])


def test_what_cannot_be_asked_for():
    with pytest.raises(ValueError, match=r"\['SVM'\]: choose from OR, CO"):
        evaluate_study(small_study(), ["SVM"])
    with pytest.raises(ValueError, match="k=0"):
        evaluate_study(small_study(), ["CO"], k=0)


@pytest.fixture
def folder(tmp_path):
    study = small_study()
    write_study(tmp_path / "study", study)
    turned = nk.Ratings(study.ratings.a, study.ratings.b, 4 - study.ratings.level)
    write_study(tmp_path / "study", StudyFolder("odd", study.objects, turned))
    return tmp_path / "study"


def test_study_folders_keep_everything(folder):
    study, again = small_study(), read_study(folder, "ratings")
    np.testing.assert_array_equal(again.objects.X, study.objects.X)
    np.testing.assert_array_equal(again.ratings.level, study.ratings.level)
    np.testing.assert_array_equal(again.ratings.rater, study.ratings.rater)
    assert again.objects.y.tolist() == study.objects.y.tolist()


def test_command_evaluates_every_kind_of_ratings(folder, tmp_path):
    command = ["evaluate", str(folder), "--method", "CO", "--method", "Euclidean", "--k", "5"]
    result = CliRunner().invoke(app, [*command, "--jobs", "1", "--json"])
    assert result.exit_code == 0, result.output
    kinds = json.loads(result.stdout)
    assert [kind["ratings"] for kind in kinds] == ["odd", "ratings"]
    direct = evaluate_study(small_study(), ["CO"], k=5, n_jobs=1)
    (row,) = [row for row in kinds[1]["summary"] if row["method"] == "CO"]
    assert row["ndcg"] == pytest.approx(direct.scores["CO"].mean())
    out = tmp_path / "out"
    result = CliRunner().invoke(app, [*command, "--ratings", "odd", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "Best, median and worst query" in result.stdout
    assert sorted(file.name for file in out.iterdir()) == [
        "differences.csv",
        "figure.png",
        "figure.svg",
        "results.parquet",
        "summary.csv",
    ]


def test_figures_are_the_same_bytes_each_time(tmp_path):
    found = evaluate_study(small_study(), ["CO", "Euclidean"], k=5, n_jobs=1)
    first = {file.name: file.read_bytes() for file in write_report(tmp_path / "a", found)}
    second = {file.name: file.read_bytes() for file in write_report(tmp_path / "b", found)}
    assert first.pop("summary.csv") == second.pop("summary.csv")
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "no objects.csv"),
        (["study", "--ratings", "tactile"], "no ratings named 'tactile'"),
        (["study", "--method", "SVM"], "choose from"),
        (["study", "--holdout", "1.5"], "hold out at least one object"),
        (["study", "--pictures", "photo"], "no column 'photo'"),
    ],
)
def test_bad_requests_say_what_is_wrong(folder, arguments, expected, monkeypatch):
    monkeypatch.chdir(folder.parent)
    result = CliRunner().invoke(app, ["evaluate", *arguments])
    assert isinstance(result.exception, ValueError | FileNotFoundError)
    assert expected in str(result.exception)
    assert result.stdout == ""


def test_errors_are_json_where_json_was_asked_for(tmp_path):
    run = subprocess.run(  # noqa: S603, PLW1510
        [sys.executable, "-m", "nearkin.cli.main", "evaluate", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert "no objects.csv" in json.loads(run.stderr)["error"]


def test_an_interrupt_is_a_clean_stop(tmp_path):
    write_study(tmp_path, small_study(n=60))
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "nearkin.cli.main", "evaluate", str(tmp_path), "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline() == "ratings: 60 objects, 3540 ratings\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr == "interrupted: nothing was written\n"


def test_select_is_a_method_that_chooses_within_each_fold(monkeypatch):
    few = {"Euclidean": nk.Euclidean(standardise=False), "CO": nk.ConvexOptimization()}
    monkeypatch.setattr(selection, "candidates", lambda *_: few)
    study = small_study()
    found = evaluate_study(study, ["CO", "select"], k=5, holdout=0.3, n_jobs=1)
    np.testing.assert_array_equal(found.scores["select"], found.scores["CO"])
    assert "select" not in METHODS
