import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

import nearkin as nk


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 15),
    st.integers(1, 20),
    st.booleans(),
)
def test_ndcg_is_the_papers(seed, n, k, repeated):
    rng = np.random.default_rng(seed)
    d = rng.integers(0, 5, size=(3, n)).astype(float)  # with ties
    shape = (3, n, 4) if repeated else (3, n)
    levels = rng.integers(1, 4, size=shape).astype(float)
    levels[rng.random(shape) < 0.3] = np.nan
    values = nk.ndcg(d, levels, k=k)
    for i in range(3):
        cells = levels[i].reshape(n, -1)
        expected = oracles.ndcg(d[i], [[v for v in cell if not math.isnan(v)] for cell in cells], k)
        assert values[i] == pytest.approx(expected, nan_ok=True)
    assert np.nanmax(values, initial=0) <= 1 + 1e-12


def test_ndcg_against_scikit_learn(rng):
    d, levels = rng.random((6, 30)), rng.integers(1, 4, size=(6, 30))
    expected = ndcg_score(2.0**levels - 1, -d, k=10)
    assert nk.ndcg(d, levels).mean() == pytest.approx(expected)


def test_equal_distances_are_broken_by_item_order():
    assert nk.ndcg([[1.0, 1.0]], [[3, 1]], k=1)[0] == 1.0
    assert nk.ndcg([[1.0, 1.0]], [[1, 3]], k=1)[0] == pytest.approx(1 / 7)


def test_infinite_distances_rank_last_but_before_nothing():
    assert nk.ndcg([[np.inf, 1.0, 0.5]], [[1, 2, np.nan]], k=2)[0] == 1.0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([[1.0]], [[1, 2]]), "shape"),
        (([1.0], [1]), "shape"),
        (([[np.nan]], [[1]]), "NaN distances for queries 0"),
        (([[1.0]], [[0]]), "levels below 1"),
        (([[1.0]], [[1]], 0), "k=0"),
    ],
)
def test_bad_input(args, message):
    with pytest.raises(ValueError, match=message):
        nk.ndcg(*args)
