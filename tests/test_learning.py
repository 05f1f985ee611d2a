"""The learning curve: leak-free, kept straight, and its forecast what it claims to be."""

import numpy as np
import pytest
from scipy.optimize import minimize
from test_protocols import Spy, small_study

import nearkin as nk
from nearkin.curve import LearningCurve
from nearkin.protocols import score_fold
from nearkin.saturating import Saturating

LEARNER = nk.OrdinalRegression(ridge=1.0)


def curve_of(values, n_objects=40, n_repeats=3, n_ratings=500, noise=0.02, sizes=None):
    """A learning curve with the given means and noise that objects share between sizes."""
    rng = np.random.default_rng(0)
    shift = rng.normal(scale=0.1, size=n_objects)
    noise = noise * rng.normal(size=(n_repeats, len(values), n_objects))
    scores = np.asarray(values)[None, :, None] + shift - shift.mean() + noise
    sizes = np.array([50, 100, 200, 400]) if sizes is None else sizes
    return LearningCurve(sizes, scores, n_ratings, 10, np.zeros(len(sizes), int))


def test_nothing_of_a_held_out_object_is_seen():
    X, y, ratings = small_study(n=20)
    Spy.seen.clear()
    nk.learning_curve(Spy(), X, y, ratings, sizes=[30, 60], n_folds=4, n_repeats=1, n_jobs=1)
    assert len(Spy.seen) == 8
    for x, labels, shown in Spy.seen:
        assert len(x) == len(labels) == 15
        kept = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in x]
        own = {(a, b): v for a, b, v in zip(ratings.a, ratings.b, ratings.level, strict=True)}
        for a, b, v in zip(shown.a, shown.b, shown.level, strict=True):
            assert own[(kept[a], kept[b])] == v
    assert sorted(len(shown) for _, _, shown in Spy.seen) == [30] * 4 + [60] * 4


def test_larger_sizes_hold_the_smaller_ones():
    X, y, ratings = small_study(n=20)
    Spy.seen.clear()
    nk.learning_curve(Spy(), X, y, ratings, sizes=[30, 15], n_folds=2, n_repeats=2, n_jobs=1)
    for (_, _, few), (_, _, many) in zip(Spy.seen[::2], Spy.seen[1::2], strict=True):
        pairs = [set(zip(r.a.tolist(), r.b.tolist(), strict=True)) for r in (few, many)]
        assert pairs[0] < pairs[1]


def test_all_ratings_of_a_fold_are_the_plain_protocol():
    X, y, ratings = small_study(n=20)
    Spy.seen.clear()
    nk.learning_curve(Spy(), X, y, ratings, sizes=[30], n_folds=2, n_repeats=1, n_jobs=1)
    first = Spy.seen[0][0]
    train = np.array([int(np.flatnonzero((row == X).all(axis=1))[0]) for row in first])
    test = np.setdiff1d(np.arange(20), train)
    size = len(ratings.within(train))
    found = nk.learning_curve(
        LEARNER, X, y, ratings, sizes=[30, size], n_folds=2, n_repeats=1, n_jobs=1
    )
    expected = score_fold(LEARNER, X, y, ratings, test, 10).ndcg
    np.testing.assert_allclose(found.scores[0, 1, test], expected)


def test_the_table_is_of_the_scores():
    X, y, ratings = small_study(n=24)
    done = []
    found = nk.learning_curve(
        LEARNER, X, y, ratings, n_repeats=2, k=5, n_jobs=1, progress=lambda *at: done.append(at)
    )
    assert done[-1] == (2 * 5 * len(found.sizes),) * 2
    assert (np.diff(found.sizes) > 0).all()
    assert found.scores.shape == (2, len(found.sizes), 24)
    values = found.scores.mean(axis=0)
    for at, row in enumerate(found.as_rows()):
        assert row["ratings"] == found.sizes[at]
        assert row["ndcg"] == pytest.approx(np.mean(values[at]))
        assert row["standard_error"] == pytest.approx(np.std(values[at], ddof=1) / 24**0.5)
        assert row["repeats"] == 2
    told = found.to_dict(20)
    assert told["expected_gain"]["more"] == 20
    assert told["expected_gain"]["n_ratings"] == len(ratings)


def test_processes_change_nothing():
    X, y, ratings = small_study(n=20)
    kinds = {"sizes": [20, 40], "n_repeats": 1, "n_folds": 3, "random_state": 5}
    one = nk.learning_curve(LEARNER, X, y, ratings, n_jobs=1, **kinds)
    two = nk.learning_curve(LEARNER, X, y, ratings, n_jobs=2, **kinds)
    np.testing.assert_array_equal(one.scores, two.scores)
    other = nk.learning_curve(LEARNER, X, y, ratings, n_jobs=1, **(kinds | {"random_state": 6}))
    assert (other.scores != one.scores).any()


def test_a_saturating_curve_is_found_again():
    n = np.array([30, 60, 120, 240, 480])
    for a, b, c in ((0.7, 1.5, 0.6), (0.9, 0.8, 0.25), (1.0, 2.0, 0.5)):
        found = Saturating.fit(n, a - b * n**-c)
        assert float(found.at(700)) == pytest.approx(a - b * 700**-c, abs=2e-4)
        assert float(found.gain(480, 50)) == pytest.approx(b * (480**-c - 530**-c), abs=2e-4)


def test_the_fit_is_the_best_within_its_bounds():
    rng = np.random.default_rng(0)
    n = np.array([30, 60, 120, 240])
    y = 0.9 + 0.1 * rng.normal(size=(12, 4)) + np.array([-0.1, 0, 0.05, 0.1])
    many = Saturating.fit(n, y)
    assert (many.b >= 0).all()
    assert (many.a <= 1).all()
    for k, values in enumerate(y):
        c = float(many.c[k])

        def loss(v, c=c, values=values):
            return float(np.sum((values - v[0] + v[1] * (n / 240) ** -c) ** 2))

        best = minimize(loss, [0.5, 0.1], bounds=[(None, 1), (0, None)], tol=1e-14)
        mine = loss([many.a[k], many.b[k] * 240**-c])
        assert mine <= best.fun + 1e-9
        one = Saturating.fit(n, values)
        assert float(one.at(300)) == pytest.approx(float(many.at(300)[k]))


def test_expected_gain_and_its_interval():
    n = np.array([50, 100, 200, 400])
    rising = curve_of(0.7 - 1.2 * n**-0.5)
    gain = rising.expected_gain(50)
    truth = 1.2 * (500**-0.5 - 550**-0.5)
    assert gain.low < truth < gain.high
    assert gain.mean == pytest.approx(truth, abs=0.002)
    assert rising.expected_gain(100).mean > gain.mean
    assert "50 ratings more than the 500 there are: NDCG +0.00" in str(gain)
    flat = curve_of([0.6, 0.6, 0.6, 0.6]).expected_gain(50)
    assert 0 <= flat.low <= flat.mean < 0.002
    noisy = curve_of(0.7 - 1.2 * n**-0.5, noise=0.3).expected_gain(50)
    assert noisy.high - noisy.low > 2 * (gain.high - gain.low)


def test_objects_that_nobody_rated_do_not_count():
    found = curve_of([0.5, 0.55, 0.58, 0.6])
    whole = found.mean
    found = curve_of([0.5, 0.55, 0.58, 0.6])
    found.scores[:, :, 0] = np.nan
    assert found.by_object.shape == (4, 39)
    np.testing.assert_allclose(found.mean, whole, atol=0.02)
    assert np.isfinite(found.expected_gain(50).mean)


def test_more_ratings_help_where_there_is_something_to_learn():
    X, y, ratings = small_study(n=40)
    noise = np.random.default_rng(0).normal(size=(40, 12))
    found = nk.learning_curve(
        LEARNER, np.hstack([X, noise]), y, ratings, sizes=[15, 60, 300], n_repeats=2, n_jobs=1
    )
    assert found.mean[2] > found.mean[0]


def test_plot_shows_every_size():
    pytest.importorskip("matplotlib").use("Agg")
    found = curve_of([0.5, 0.55, 0.58, 0.6])
    axes = found.plot()
    drawn = [line.get_xdata() for line in axes.get_lines()]
    assert any(np.array_equal(x, found.sizes) for x in drawn)
    axes.figure.clear()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": [10, 10_000]}, "give sizes up to"),
        ({"sizes": [1]}, r"learning_curve\(sizes=1\): must be >= 2"),
        ({"sizes": []}, "give sizes up to"),
        ({"n_folds": 1}, r"n_folds=1\): must be >= 2"),
        ({"n_repeats": 0}, "n_repeats=0"),
        ({"k": 0}, r"learning_curve\(k=0\)"),
        ({"ratings": None}, "learning_curve requires ratings"),
        ({"ratings": nk.Ratings([0, 1], [1, 2], [1, 3])}, "at least 16 are needed"),
    ],
)
def test_bad_requests_are_said(change, said):
    X, y, ratings = small_study(n=20)
    asked = {"X": X, "y": y, "ratings": ratings, "n_jobs": 1} | change
    with pytest.raises(ValueError, match=said):
        nk.learning_curve(LEARNER, **asked)


def test_a_fit_that_fails_says_at_which_size():
    X, y, ratings = small_study(n=20)
    alike = nk.Ratings(ratings.a, ratings.b, np.ones(len(ratings), int))
    with pytest.raises(ValueError, match=r"with 20 ratings the fit failed.*larger sizes="):
        nk.learning_curve(LEARNER, X, y, alike, sizes=[20, 40], n_jobs=1)


def test_two_sizes_do_not_show_how_it_goes_on():
    found = curve_of([0.5, 0.6], sizes=np.array([50, 100]))
    with pytest.raises(ValueError, match="measure three or more"):
        found.expected_gain(50)
