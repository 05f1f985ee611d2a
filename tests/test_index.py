"""All kinds of index agree with brute force in float64, and their files give them back."""

import warnings

import index_cases as cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import nearkin as nk
from nearkin.bundle import BundleError
from nearkin.index import HNSW, IVF, ExactIndex, FolderBusyError, Where

KINDS = {
    "exact": ExactIndex,
    "cells": cases.built(IVF()),
    "codes": cases.built(IVF(coded=True)),
    "graph": cases.built(HNSW()),
}


@pytest.fixture(params=list(KINDS))
def make(request):
    return KINDS[request.param]


@pytest.fixture
def least(make):
    """The share of the nearest to be found: of .99, up to 8 of 250 may be missing by chance."""
    return 1.0 if make is ExactIndex else 0.968


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_agrees_with_brute_force(make, least, case):
    cases.check_agreement(make, case, least)


def test_filters(make, least):
    cases.check_filters(make, least)


def test_adding_and_removing(make, least):
    cases.check_life(make, least)


def test_empty(make):
    cases.check_empty(make)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 8), st.booleans())
def test_exact_index_and_brute_force_agree_whatever_happens(seed, n, k, profiled):
    rng = np.random.default_rng(seed)
    metric, items, queries = cases.collection(
        cases.Case("any", n=n, K=3, M=2, profiled=profiled, copies=2, n_queries=4), seed
    )
    index, ids = ExactIndex(metric), np.array([f"o{i}" for i in range(n)])
    here = np.zeros(n, dtype=bool)
    order = []
    for _ in range(4):
        coming = np.flatnonzero(~here & (rng.random(n) < 0.5))
        index.add(items[coming], ids[coming].tolist())
        here[coming] = True
        order += coming.tolist()
        going = np.flatnonzero(here & (rng.random(n) < 0.3))
        index.remove(ids[going].tolist())
        here[going] = False
        order = [row for row in order if here[row]]
        assert index.ids == ids[order].tolist()
        d = cases.exact_distances(metric, items[order], queries)
        nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
        found = index.search(queries, k)
        found_ids = found.ids[:, : nearest.shape[1]]
        np.testing.assert_array_equal(found_ids.astype(str), ids[order][nearest].astype(str))


@pytest.mark.parametrize("mmap", [False, True])
def test_save_and_load(make, tmp_path, mmap):
    index, metric, items, queries, ids, *_ = cases.filled(make, profiled=True)
    index.remove(ids[:5])
    index.save(tmp_path / "i")
    again = type(index).load(tmp_path / "i", mmap=mmap)
    where = [None, Where(classes=["cyst"]), *[Where(exclude={"patient": ["p9"]})] * 23]
    for one in (None, where):
        expected, found = index.search(queries, 7, one), again.search(queries, 7, one)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.distances, expected.distances)
    assert len(again) == len(index)
    again.remove(ids[5:9])
    again.add(items[:3], ids[:3], labels=["cyst"] * 3, meta={"ward": ["a", "b", None]})
    again.save(tmp_path / "i")  # over the files that are mapped
    third = type(index).load(tmp_path / "i", metric)
    np.testing.assert_array_equal(third.search(queries, 7).ids, again.search(queries, 7).ids)
    assert third.search(queries[:1], 9, Where(only={"ward": ["a", "b"]})).ids[0, 2] is None


def test_an_empty_index_is_saved(make, tmp_path):
    metric, items, queries = cases.collection(cases.Case("empty", M=3))
    make(metric).save(tmp_path / "i")
    again = make.load(tmp_path / "i", mmap=True)
    assert len(again) == 0
    again.add(items, range(len(items)))
    assert again.search(queries, 1).ids[0, 0] is not None


def test_another_metric_is_refused(make, tmp_path):
    index, metric, *_ = cases.filled(make)
    index.save(tmp_path / "i")
    other = nk.Metric(metric.weights * 2, metric.class_costs, metric.classes)
    with pytest.raises(ValueError, match=r"made with another metric \(its hash is"):
        type(index).load(tmp_path / "i", other)
    assert len(type(index).load(tmp_path / "i", metric)) == 300


def test_a_foreign_classifier_comes_with_its_metric(make, study, tmp_path):
    X, y, ratings = study
    est = nk.Hybrid(classifier=LogisticRegression()).fit(X, y, ratings)
    index = make(est.metric_)
    index.add(est.points_, range(len(X)))
    with pytest.warns(UserWarning, match="LogisticRegression is not saved"):
        index.save(tmp_path / "i")
    again = type(index).load(tmp_path / "i", est.metric_)
    assert again.search(again.metric.points(X[:1]), 1).ids.tolist() == [["0"]]


def test_float32_features_stay_small(make):
    metric = nk.Metric(np.ones(4))
    x = np.random.default_rng(0).normal(size=(50, 4))
    index = make(metric)
    index.add(metric.points(x.astype(np.float32)), range(50))
    assert index._held.objects.points.x.dtype == np.float32
    index.add(metric.points(x), range(50, 100))
    assert index._held.objects.points.x.dtype == np.float64
    assert index.search(metric.points(x[3:4]), 1).ids[0, 0] == "53"


def test_saving_where_it_cannot_be(make, tmp_path):
    index = make(nk.Metric(np.ones(2)))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="is a file"):
        index.save(tmp_path / "file")
    with pytest.raises(FileExistsError, match="holds other things, such as 'file'"):
        index.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        index.save(tmp_path / "none" / "i")
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        make.load(tmp_path / "i")
    with pytest.raises(BundleError, match="holds no complete nearkin"):
        make.load(tmp_path)


def test_two_that_read_the_same_do_not_overwrite_each_other(make, tmp_path):
    index, _, items, *_ = cases.filled(make)
    index.save(tmp_path / "i")
    mine, yours = (type(index).load(tmp_path / "i") for _ in range(2))
    mine.add(items[:1], ["mine"])
    mine.save(tmp_path / "i")
    yours.add(items[:1], ["yours"])
    with pytest.raises(FolderBusyError, match="was changed by another process since it was read"):
        yours.save(tmp_path / "i")
    yours.save(tmp_path / "j")
    mine.save(tmp_path / "i")  # the last one to write may go on
    assert len(list((tmp_path / "i").glob("gen-*"))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "mine" in type(index).load(tmp_path / "i").ids
