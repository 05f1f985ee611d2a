"""The correlation filter: against a literal loop, deterministic, with the partner recorded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin import preparation
from nearkin.preparation import paper_preparation


def literal_filter(x, threshold):
    """Return kept columns and partners, column by column."""
    kept, partner = [], []
    for k in range(x.shape[1]):
        if np.ptp(x[:, k]) == 0:
            partner.append(-1)
            continue
        rivals = [j for j in kept if abs(np.corrcoef(x[:, j], x[:, k])[0, 1]) > threshold]
        partner.append(rivals[0] if rivals else -1)
        if not rivals:
            kept.append(k)
    return kept, partner


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([2, 5, 512]))
def test_filter_is_the_literal_loop(seed, K, block):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, K)) @ rng.integers(0, 2, size=(K, K)) + 0.05 * rng.normal(size=(12, K))
    before = preparation.BLOCK
    preparation.BLOCK = block
    try:
        found = nk.CorrelationFilter(threshold=0.9).fit(x)
    finally:
        preparation.BLOCK = before
    kept, partner = literal_filter(x, 0.9)
    assert np.flatnonzero(found.get_support()).tolist() == kept
    assert found.partner_.tolist() == partner


def test_constant_columns_are_dropped_without_a_partner():
    x = np.c_[np.arange(5.0), np.full(5, 1e9), -np.arange(5.0)]
    found = nk.CorrelationFilter().fit(x)
    assert found.get_support().tolist() == [True, False, False]
    assert found.partner_.tolist() == [-1, -1, 0]
    assert found.correlation_[2] == pytest.approx(-1.0)


def test_units_change_nothing():
    x = np.random.default_rng(0).normal(size=(30, 4))
    x = np.c_[x, x[:, 0] + 0.1 * x[:, 1]]
    plain = nk.CorrelationFilter().fit(x)
    scaled = nk.CorrelationFilter().fit(x * [1e-6, 1.0, 1e6, 5.0, 1e3] + 100.0)
    np.testing.assert_array_equal(plain.get_support(), scaled.get_support())


def test_names_of_kept_features_follow_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2, 3], "area": [2.0, 4, 6], "hue": [1.0, 5, 2]})
    found = nk.CorrelationFilter().fit(frame)
    assert found.get_feature_names_out().tolist() == ["size", "hue"]
    assert paper_preparation().fit(frame).transform(frame).shape == (3, 2)


def test_a_bad_threshold_is_an_error():
    with pytest.raises(ValueError, match="threshold=-1"):
        nk.CorrelationFilter(threshold=-1).fit(np.eye(3))
