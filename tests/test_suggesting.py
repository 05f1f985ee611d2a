"""The experiment on suggested ratings: repeatable, fair, and worth it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from nearkin.cli.main import app
from nearkin.experiments import suggesting
from nearkin.experiments.suggesting import RANDOM, STRATEGIES, SUGGESTED, Settings, read_scores, run
from nearkin.experiments.suggesting_report import (
    needed,
    needed_ratio,
    reached,
    sentences,
    write_report,
)

SMALL = Settings(
    n_models=2,
    n_objects=60,
    n_train=30,
    shares=(0.1, 0.2, 0.3),
    methods=("Hybrid()",),
    random_repeats=2,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suggesting")
    assert list(run(folder, SMALL, 1)) == [0, 1, 2]
    return folder


def test_all_strategies_start_from_the_same_ratings(done):
    scores = read_scores(done, SMALL)["Hybrid()"]
    assert set(scores) == set(STRATEGIES)
    for values in scores.values():
        assert np.isfinite(values).all()
        np.testing.assert_allclose(values[:, 0], scores[RANDOM][:, 0])


def test_results_do_not_depend_on_the_number_of_processes(done, tmp_path):
    list(run(tmp_path, SMALL, 2))
    one, two = (read_scores(folder, SMALL)["Hybrid()"] for folder in (done, tmp_path))
    for strategy in STRATEGIES:
        np.testing.assert_array_equal(one[strategy], two[strategy])


def test_no_pair_is_rated_twice(monkeypatch):
    seen = []
    real = suggesting.pick

    def pick(strategy, fitted, X, y, ratings, *rest):
        new = real(strategy, fitted, X, y, ratings, *rest)
        assert len(np.unique(new)) == len(new)
        assert not np.isin(new, ratings.a * len(X) + ratings.b).any()
        seen.append((strategy, len(ratings), len(new)))
        return new

    monkeypatch.setattr(suggesting, "pick", pick)
    suggesting.score_model(SMALL, 0)
    assert {strategy for strategy, *_ in seen} == set(STRATEGIES)
    assert {(have, new) for _, have, new in seen} == {(87, 87), (174, 87)}


def test_report_has_everything(done):
    files, said = write_report(done, SMALL)
    assert {file.name for file in files} == {
        "summary.csv",
        "needed.csv",
        "figure.png",
        "figure.svg",
    }
    assert len(said) == 3
    assert all("of the ratings." in sentence for sentence in said)


def test_where_a_curve_reaches_a_value():
    sizes, curve = np.array([10.0, 20.0, 40.0]), np.array([0.5, 0.6, 0.7])
    assert reached(curve, 0.65, sizes) == pytest.approx(30)
    assert reached(curve, 0.4, sizes) == 10
    assert reached(curve, 0.8, sizes) == np.inf
    rng = np.random.default_rng(0)
    base = curve + 0.01 * rng.normal(size=(50, 1))
    ratio, low, high = needed_ratio(base + 0.05, base, sizes, 2)
    np.testing.assert_allclose([ratio, low, high], 30 / 40)
    assert needed_ratio(base - 0.5, base, sizes, 2)[0] == np.inf
    scores = {"m": {RANDOM: base, SUGGESTED: base + 0.05}}
    settings = Settings(n_train=11, shares=(10 / 110, 20 / 110, 40 / 110))
    rows = needed(scores, settings)
    assert [row["ratings"] for row in rows] == [15.0, 30.0]
    assert "75% [75%, 75%] of the ratings" in sentences(rows, settings)[0]


def test_suggested_pairs_win_on_the_synthetic_study(tmp_path):
    settings = Settings(
        n_models=3,
        shares=(0.03, 0.06, 0.105, 0.15),
        methods=("ItemProfiles",),
        strategies=(RANDOM, SUGGESTED),
        random_repeats=1,
    )
    list(run(tmp_path, settings, 1))
    scores = read_scores(tmp_path, settings)["ItemProfiles"]
    # with 70 % of the ratings at least as good as random pairs with all of them
    assert scores[SUGGESTED][:, 2].mean() > scores[RANDOM][:, 3].mean()


def test_command_prints_data_on_stdout(tmp_path, monkeypatch):
    monkeypatch.setattr(Settings, "random_repeats", 1)
    command = ["reproduce", "suggesting", "--models", "2", "--method", "Hybrid()", "--jobs", "1"]
    command += ["--share", "0.03", "--share", "0.05", "--out", str(tmp_path / "s")]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {row["strategy"] for row in found["summary"]} == set(STRATEGIES)
    table = CliRunner().invoke(app, command)
    assert "Hybrid(): mean NDCG@10 by ratings" in table.stdout
