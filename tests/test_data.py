import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.data import check_finite, check_ratings, encode_labels


def test_ratings_are_frozen_copies():
    a = np.array([0, 1])
    ratings = nk.Ratings(a, [1, 2], [1, 3])
    a[0] = 7
    assert ratings.a[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        ratings.a[0] = 5


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 1], [1], [3, 1]), "differ in length: a has 2, b has 1, level has 2"),
        (([0, 1], [1, 1], [3, 1]), "against itself in rows 1"),
        (([0, -1], [1, 2], [3, 1]), "negative object index in rows 1"),
        (([0, 1], [1, 2], [3, 4]), r"level outside 1..3 in rows 1 \(found 4..4\).*n_levels"),
        (([0, 1], [1, 2], [0, 1]), "level outside 1..3 in rows 0"),
        (([0, 1], [1, 2], [1.5, 1]), "level=.*whole numbers; not so in rows 0"),
        (([0, 1], [1, 2], [np.nan, 1]), "level=.*whole numbers; not so in rows 0"),
        ((["p", "q"], ["q", "r"], [3, 1]), "read_ratings"),
        (([[0], [1]], [1, 2], [3, 1]), "shape"),
    ],
)
def test_bad_ratings_name_their_rows(columns, message):
    with pytest.raises(ValueError, match=message):
        nk.Ratings(*columns)


@pytest.mark.parametrize("weight", [[1.0, 0.0], [1.0, np.nan], [1.0, -1.0], [1.0, np.inf]])
def test_weights_must_be_positive(weight):
    with pytest.raises(ValueError, match="positive; not so in rows 1"):
        nk.Ratings([0, 1], [1, 2], [3, 1], weight=weight)


def test_n_levels_must_make_a_scale():
    with pytest.raises(ValueError, match=r"n_levels=1\): must be >= 2"):
        nk.Ratings([0], [1], [1], n_levels=1)


def test_many_bad_rows_are_counted_not_listed():
    with pytest.raises(ValueError, match=r"rows 0, 1, 2, 3, 4, \.\.\. \(50 in all\)"):
        nk.Ratings(np.zeros(50), np.ones(50), np.full(50, 9))


def test_subset_keeps_rater_weight_and_scale():
    ratings = nk.Ratings([0, 1], [1, 2], [5, 1], rater=["r", "s"], weight=[1, 2], n_levels=5)
    part = ratings[ratings.level == 1]
    assert (part.rater.tolist(), part.weight.tolist(), part.n_levels) == (["s"], [2.0], 5)


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 3)).filter(
            lambda row: row[0] != row[1]
        ),
        min_size=1,
        max_size=40,
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_merged_ignores_order_and_orientation(rows, weighted, random):
    weight = [random.choice([0.5, 1.0, 3.0]) for _ in rows] if weighted else None
    merged = nk.Ratings(*zip(*rows, strict=True), weight=weight).merged()
    expected = {}
    for (a, b, level), w in zip(rows, weight or [1.0] * len(rows), strict=True):
        key = (min(a, b), max(a, b), level)
        expected[key] = expected.get(key, 0.0) + w
    keys = list(zip(merged.a.tolist(), merged.b.tolist(), merged.level.tolist(), strict=True))
    assert keys == sorted(expected)
    assert merged.weight.tolist() == pytest.approx([expected[key] for key in keys])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2, -1, 0, 2]),
        np.array([2.0, np.nan, 0.0, 2.0]),
        np.array([2, None, 0, 2], dtype=object),
        [2, None, 0, 2],
        [2, -1.0, 0, 2],
    ],
)
def test_missing_labels_in_any_dress(labels):
    codes, classes = encode_labels(labels, 4)
    assert codes.tolist() == [1, -1, 0, 1]
    assert classes.tolist() == [0, 2]


def test_string_labels_and_pandas_gaps():
    pd = pytest.importorskip("pandas")
    for y in (["b", None, "a"], pd.Series(["b", None, "a"]), pd.Series(["b", pd.NA, "a"])):
        codes, classes = encode_labels(y, 3)
        assert (codes.tolist(), classes.tolist()) == ([1, -1, 0], ["a", "b"])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1, None], "mixes labels"),
        ([0.5, 1.0, 2.0], "continuous"),
        ([0, 1], r"shape \(2,\), but X has 3 rows"),
        ([[0], [1], [2]], r"shape \(3, 1\)"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y, 3)


@pytest.mark.parametrize("gap", [None, np.nan, -1])
def test_a_list_may_mix_text_with_gaps(gap):
    # NumPy makes text of it: "nan" and "-1" once became classes
    codes, classes = encode_labels(["b", gap, "a"], 3)
    assert (codes.tolist(), classes.tolist()) == ([1, -1, 0], ["a", "b"])


def test_dates_are_no_classes():
    with pytest.raises(ValueError, match="Unknown label type: datetime64"):
        encode_labels(np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]"), 2)


@pytest.mark.parametrize("scale", [1e70, 1e-70])
def test_features_beyond_floating_point_squares_are_refused(scale):
    # squares of squares over- or underflow: a fit once "converged" with all weights 0
    with pytest.raises(ValueError, match=r"columns 0, 1.*other units"):
        check_finite(np.arange(6.0).reshape(3, 2) * scale, "OR")


def test_within_renumbers_for_a_subset_of_objects(rng):
    X = rng.normal(size=(10, 1))
    a, b = np.triu_indices(10, k=1)
    ratings = nk.Ratings(a, b, 1 + (a + b) % 3)
    rows = np.array([7, 2, 5])
    part = ratings.within(rows)
    assert len(part) == 3
    seen = {(int(rows[i]), int(rows[j])) for i, j in zip(part.a, part.b, strict=True)}
    assert {tuple(sorted(pair)) for pair in seen} == {(2, 5), (2, 7), (5, 7)}
    mask = np.zeros(10, dtype=bool)
    mask[rows] = True
    assert len(ratings.within(mask)) == 3
    assert len(X[rows]) == 3


def test_one_rating_and_columns_of_weights():
    ratings = nk.Ratings([0, 1], [1, 2], [1, 3])
    assert len(ratings[1]) == 1
    assert [len(one) for one in ratings] == [1, 1]
    with pytest.raises(ValueError, match=r"weight=.*shape \(2, 1\)"):
        nk.Ratings([0, 1], [1, 2], [1, 3], weight=[[1.0], [1.0]])


def test_no_labels_at_all():
    codes, classes = encode_labels(None, 3)
    assert codes.tolist() == [-1, -1, -1]
    assert len(classes) == 0


def test_non_finite_features_are_named():
    X = np.zeros((4, 3))
    X[1, 2] = np.nan
    X[3, 0] = np.inf
    message = r"OR: X contains NaN or infinity.*rows 1, 3, columns 0, 2"
    with pytest.raises(ValueError, match=message):
        check_finite(X, "OR")


def test_ratings_are_checked_against_the_objects():
    ratings = nk.Ratings([0, 7], [1, 2], [3, 1])
    with pytest.raises(ValueError, match="rating rows 1: X has 5 rows, the largest index is 7"):
        check_ratings(ratings, 5, "OR")
    with pytest.raises(ValueError, match="requires ratings"):
        check_ratings(None, 5, "OR")
    with pytest.raises(TypeError, match=r"ratings is a tuple; pass nearkin\.Ratings"):
        check_ratings((0, 1), 5, "OR")
    with pytest.raises(ValueError, match="ratings is empty"):
        check_ratings(ratings[:0], 5, "OR")
