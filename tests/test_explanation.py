"""Explanations: the addends are d2, and what leans which way is measured, not guessed."""

import json
import re

import matplotlib
import numpy as np
import pytest
from conftest import random_pairs, rate

import nearkin as nk
from nearkin.explaining import Usual

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    y = np.array(["cyst", "metastasis", "hemangioma", None], dtype=object)[rng.integers(0, 4, 40)]
    a, b = random_pairs(rng, 40, 250)
    d2 = ((X[a] - X[b]) ** 2) @ np.array([3.0, 1.0, 0.5, 0.0]) + 4.0 * (y[a] != y[b])
    ratings = nk.Ratings(a, b, rate(d2, rng))
    methods = [
        nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0), missing=missing)
        for missing in (None, nk.ItemProfiles(), nk.LatentFeatures(n_starts=1, n_features=2))
    ]
    return [method.fit(X, y, ratings) for method in (*methods, nk.OrdinalRegression())]


def test_addends_sum_to_the_squared_distance(fits):
    for est in fits:
        p = est.points_
        new = est.metric_.points(p.x[:4] + 0.1)
        for query in (new[1], p[1]):
            for i in range(5, 20):
                found = nk.explain(est.metric_, query, p[i], collection=p)
                d2 = est.metric_.pair_distances(query, p[i], squared=True)[0]
                for parts in (found.parts, found.groups):
                    assert sum(part.addend for part in parts) == pytest.approx(d2, abs=1e-12)
                assert sum(part.share for part in found.parts) == pytest.approx(1.0)
                leans = sum(g.lean for g in found.groups)
                assert leans == pytest.approx(d2 - found.usual_squared_distance, abs=1e-12)


def test_the_mean_pair_is_the_mean_over_all_pairs(fits):
    for est in fits:
        p = est.points_
        a, b = np.triu_indices(len(p), k=1)
        parts = est.metric_.contributions(p[a], p[b])
        usual = Usual.of(est.metric_, p)
        np.testing.assert_allclose(usual.features, parts.features.mean(axis=0), rtol=1e-10)
        classes = 0.0 if parts.class_pairs is None else parts.class_pairs.sum(axis=(1, 2)).mean()
        assert usual.classes == pytest.approx(classes, rel=1e-9)


def test_the_order_of_the_two_changes_nothing(fits):
    for est in fits:
        p = est.points_
        one, two = (nk.explain(est.metric_, p[i], p[j], collection=p) for i, j in ((3, 9), (9, 3)))
        addends = [{part.name: part.addend for part in found.groups} for found in (one, two)]
        assert addends[0].keys() == addends[1].keys()
        for name, value in addends[0].items():
            assert addends[1][name] == pytest.approx(value, abs=1e-12)


def metric_with_floor():
    metric = nk.Metric([1.0], [[0.0, 1.0], [1.0, 0.0]], ["m", "n"], profiled=True)
    u = np.array([[1.0, 0.0], [1.0, 0.0]])
    return metric, nk.Points(np.zeros((2, 1)), u, np.array([[-1.0, 0.0], [-2.0, 0.0]]))


def test_a_sum_below_0_is_cut_off_openly():
    metric, p = metric_with_floor()
    found = nk.explain(metric, p[0], p[1])
    assert found.squared_distance == 0.0
    assert [(x.kind, x.addend) for x in found.parts if x.kind == "floor"] == [("floor", 3.0)]
    assert sum(x.addend for x in found.parts) == 0.0
    assert json.loads(found.to_json())["parts"][0]["share"] is None  # of nothing


def test_families_are_summed_and_leans_have_signs():
    names = ("size", "width", "tint")
    metric = nk.Metric([1.0, 1.0, 2.0], feature_names=names)
    p = metric.points([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 5.0]])
    families = {"size": "form", "width": "form"}
    found = nk.explain(metric, p[0], p[1], collection=p, families=families)
    assert [(g.name, g.kind, g.addend) for g in found.groups] == [
        ("form", "family", 25.0),
        ("tint", "feature", 0.0),
    ]
    # mean over the three pairs: form (25 + 0 + 25) / 3, tint (0 + 50 + 50) / 3
    assert [(g.name, g.lean) for g in found.apart] == [("form", pytest.approx(25 / 3))]
    assert [(g.name, g.lean) for g in found.together] == [("tint", pytest.approx(-100 / 3))]
    with pytest.raises(ValueError, match="no feature is named 'colour'"):
        nk.explain(metric, p[0], p[1], families={"colour": "look"})


def test_values_are_shown_in_original_units():
    metric = nk.Metric([1.0, 4.0], feature_names=("size", "tint"))
    p = metric.points([[-1.0, 0.5], [1.0, 0.5]])
    found = nk.explain(
        metric, p[0], p[1], values=([4.1, 7], [12.0, 7]), names=("a", "b"), labels=("cyst", None)
    )
    assert (found.parts[0].query, found.parts[0].item, found.parts[0].addend) == (4.1, 12.0, 4.0)
    assert "4.1 against 12" in str(found)
    assert str(found).startswith("a (cyst) and b: distance 2, d2 = 4\n")
    with pytest.raises(ValueError, match="the metric has 2 features"):
        nk.explain(metric, p[0], p[1], values=([1], [2]))


def test_one_object_each():
    metric = nk.Metric([1.0])
    p = metric.points([[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"explain\(query=...\): pass the Points of one object"):
        nk.explain(metric, p, p[0])
    with pytest.raises(ValueError, match="not list"):
        nk.explain(metric, p[0], [1.0])


HOSTILE = "<script>alert('x')</script>&\"$\\frac{"


def test_hostile_names_stay_text(tmp_path):
    metric = nk.Metric([1.0, 1.0], np.ones((2, 2)), [HOSTILE, "m"], feature_names=(HOSTILE, "b"))
    p = metric.points([[0.0, 1.0], [2.0, 0.0]], [HOSTILE, "m"])
    found = nk.explain(
        metric,
        p[0],
        p[1],
        collection=p,
        names=(HOSTILE, "q"),
        labels=(HOSTILE, "m"),
        families={HOSTILE: HOSTILE},
    )
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;" in page
    tags = set(re.findall(r"</?([a-z0-9!]+)", page))
    assert tags <= {
        "!doctype",
        "html",
        "head",
        "meta",
        "title",
        "body",
        "table",
        "caption",
        "tr",
        "th",
        "td",
        "div",
        "p",
    }
    found.plot().figure.savefig(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 1000


def test_plot_shows_the_largest_and_says_what_is_left(fits):
    est, p = fits[0], fits[0].points_
    ax = nk.explain(est.metric_, p[0], p[5], collection=p).plot(most=2)
    assert len(ax.patches) == 2
    assert "3 smaller ones not shown" in ax.get_xlabel()
