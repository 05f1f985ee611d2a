"""Many classes that say little: sizes, and how much a class tells of an object."""

import numpy as np
import pytest

from nearkin.experiments.weak_labels import draw_weak_labels, weak_label_model


def test_each_class_has_its_members_and_levels_are_cut_as_in_the_paper():
    study = draw_weak_labels(np.random.default_rng(0), n_classes=30, per_class=8, n_queries=20)
    X, y = study.train
    assert X.shape == (240, 20)
    assert np.bincount(y).tolist() == [8] * 30
    assert study.queries.shape == (20, 20)
    off = study.levels[~np.eye(260, dtype=bool)]
    shares = [np.mean(off == level) for level in (1, 2, 3)]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=1e-3)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_classes_explain_the_share_of_variance_that_they_should(share):
    rng = np.random.default_rng(1)
    c = np.repeat(np.arange(400), 20)
    parts = weak_label_model(rng, n_classes=400, label_share=share).features(c, rng)
    for features in parts:
        within = features.reshape(400, 20, -1).var(axis=1, ddof=1).mean()
        assert within == pytest.approx(1.0 - share, abs=0.02)
        assert features.var() == pytest.approx(1.0, abs=0.05)
