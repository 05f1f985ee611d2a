import json
import warnings
import zipfile

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import nearkin as nk
from nearkin.bundle import BundleError


@pytest.fixture
def fitted(study):
    X, y, ratings = study
    return nk.Hybrid(classifier=nk.KernelClassifier(random_state=0)).fit(X, y, ratings), X, y


def random_metric(rng, K, M, offset=0.0):
    Q = rng.exponential(size=(M, M)) if M else None
    return nk.Metric(
        weights=rng.exponential(size=K) * (rng.random(K) < 0.8),
        class_costs=None if Q is None else Q + Q.T,
        classes=None if Q is None else np.arange(M),
        center=np.full(K, offset),
    )


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(0, 4),
    st.sampled_from([0.0, 1e3, -1e6]),
)
def test_distances_vectors_and_contributions_agree(seed, K, M, offset):
    rng = np.random.default_rng(seed)
    m = random_metric(rng, K, M, offset)
    proba = [rng.dirichlet(np.ones(M), n) if M else None for n in (5, 7)]
    q = m.points(rng.normal(size=(5, K)) + offset, proba=proba[0])
    p = m.points(rng.normal(size=(7, K)) + offset, proba=proba[1])
    d = m.distances(q, p)
    assert d.shape == (5, 7)
    for i in range(5):
        for j in range(7):
            u, v = (None, None) if not M else (q.u[i], p.u[j])
            expected = oracles.d2(q.x[i], p.x[j], m.weights, u, v, m.class_costs)
            assert d[i, j] ** 2 == pytest.approx(expected, rel=1e-7, abs=1e-12)
            assert m.pair_distances(q[i], p[j])[0] == pytest.approx(d[i, j], rel=1e-9)
            parts = m.contributions(q[i], p[j])
            assert parts.total[0] == pytest.approx(d[i, j] ** 2, rel=1e-9, abs=1e-12)
            assert sum(value for _, value in parts.named()) == pytest.approx(parts.total[0])
    np.testing.assert_allclose(m.distances(p, q), d.T, rtol=1e-9)
    # the inner product is |sqrt(r) x_q|^2 - d2: its query's own constant does not rank
    product = m.query_vectors(q) @ m.item_vectors(p).T + d**2
    assert m.item_vectors(p).shape == (7, K + 1 + M)
    spread = 1e-12 * max(1.0, np.abs(product).max())
    np.testing.assert_allclose(product, product[:, :1].repeat(7, axis=1), atol=spread)


def test_an_object_is_at_distance_0_from_itself_however_far_out(rng):
    # |a|^2 + |b|^2 - 2 a.b loses all digits here
    X = rng.normal(size=(50, 4)) * 1e-4 + 1e5 * rng.normal(size=(50, 1))
    m = nk.Metric(np.ones(4))
    p = m.points(X)
    d = m.distances(p, p)
    np.testing.assert_array_equal(np.diag(d), 0.0)
    exact = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.testing.assert_allclose(d, exact, rtol=1e-6)


def test_pair_distances_by_index(fitted):
    est, _, _ = fitted
    m, p = est.metric_, est.points_
    d = m.distances(p, p)
    a, b = np.array([0, 5, 7]), np.array([3, 3, 9])
    np.testing.assert_allclose(m.pair_distances(p, p, a, b), d[a, b], rtol=1e-10)
    np.testing.assert_allclose(m.pair_distances(p, p, a, b, squared=True), d[a, b] ** 2)
    assert len(m.pair_distances(p, p, [], [])) == 0
    with pytest.raises(ValueError, match="as many"):
        m.pair_distances(p, p, a, b[:2])


def test_known_labels_count_as_certain_and_others_by_posterior(fitted):
    est, X, _ = fitted
    m = est.metric_
    p = m.points(X[:3], ["cyst", None, "metastasis"])
    np.testing.assert_array_equal(p.u[[0, 2]], np.eye(3)[[0, 2]])
    np.testing.assert_allclose(p.u[1], est.classifier_.predict_proba(X[1:2])[0])
    with pytest.raises(ValueError, match=r"unseen classes \['wart'\] in rows 1"):
        m.points(X[:2], ["cyst", "wart"])


def test_bad_queries(fitted):
    est, X, _ = fitted
    m = est.metric_
    with pytest.raises(ValueError, match=r"shape \(60, 3\); this metric was fitted on 4 features"):
        m.points(X[:, :3])
    with pytest.raises(ValueError, match=r"Metric\.points: X contains NaN"):
        m.points(X * np.nan)
    with pytest.raises(ValueError, match="60 rows but y has"):
        m.points(X, ["cyst"])
    with pytest.raises(ValueError, match="class probabilities must be"):
        m.points(X, proba=np.ones((60, 2)))
    with pytest.raises(ValueError, match=r"make them with metric.points"):
        m.distances(nk.Points(X), est.points_)
    with pytest.raises(ValueError, match="pass pairs"):
        m.contributions(est.points_[0], est.points_)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"weights": [-1.0]}, "weights"),
        ({"weights": [np.nan]}, "weights"),
        ({"weights": [1.0], "feature_names": ["a", "b"]}, "feature_names"),
        ({"weights": [1.0], "class_costs": [[1.0]]}, "class_costs"),
        ({"weights": [1.0], "class_costs": [[0, 1], [2, 0]], "classes": [0, 1]}, "symmetric"),
    ],
)
def test_a_metric_checks_its_parts(parts, message):
    with pytest.raises(ValueError, match=message):
        nk.Metric(**parts)


def test_a_metric_takes_lists_and_names(tmp_path):
    pd = pytest.importorskip("pandas")
    m = nk.Metric(weights=[1, 2], feature_names=["p", "q"])
    assert m.points(pd.DataFrame({"p": [1], "q": [2]})).x.tolist() == [[1.0, 2.0]]
    m.save(tmp_path / "m")
    assert nk.load_metric(tmp_path / "m").feature_names == ("p", "q")
    with pytest.raises(FileNotFoundError, match="no folder"):
        m.save(tmp_path / "none" / "m")
    with pytest.raises(TypeError, match="turn objects into points"):
        m.distances(np.ones((1, 2)), np.ones((1, 2)))
    with pytest.raises(ValueError, match="numbers only"):
        m.points([["a", 1]])


def test_probabilities_must_sum_to_1(fitted):
    est, X, _ = fitted
    with pytest.raises(ValueError, match="sum to 1"):
        est.metric_.points(X[:1], proba=[[5, 5, 5]])


def test_save_and_load_exactly(fitted, tmp_path):
    est, X, _ = fitted
    m = est.metric_
    m.save(tmp_path / "m.nearkin")
    loaded = nk.load_metric(tmp_path / "m.nearkin")
    q = [metric.points(X[:9] + 0.3) for metric in (m, loaded)]
    np.testing.assert_array_equal(q[0].u, q[1].u)
    np.testing.assert_array_equal(
        m.distances(q[0], est.points_), loaded.distances(q[1], est.points_)
    )
    assert loaded.classes.tolist() == m.classes.tolist()
    assert loaded.provenance["converged"] is True
    again = tmp_path / "again"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "m.nearkin").read_bytes()
    header = json.loads(zipfile.ZipFile(again).read("header.json"))
    assert header["kind"] == "nearkin metric"
    assert header["format"] == 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_save_and_load_round_trip(tmp_path_factory, seed, K, M, fortran):
    rng = np.random.default_rng(seed)
    m = random_metric(rng, K, M)
    if fortran and M:  # safetensors 0.8 corrupts arrays in this order
        m = nk.Metric(m.weights[::-1], np.asfortranarray(m.class_costs), m.classes, None, m.center)
    path = tmp_path_factory.mktemp("m") / "m"
    m.save(path)
    loaded = nk.load_metric(path)
    np.testing.assert_array_equal(loaded.weights, m.weights)
    np.testing.assert_array_equal(loaded.center, m.center)
    if M:
        np.testing.assert_array_equal(loaded.class_costs, m.class_costs)


def test_a_foreign_classifier_is_not_saved_and_says_so(study, tmp_path):
    X, y, ratings = study
    est = nk.Hybrid(classifier=LogisticRegression()).fit(X, y, ratings)
    with pytest.warns(UserWarning, match="classifier LogisticRegression is not saved"):
        est.metric_.save(tmp_path / "m")
    loaded = nk.load_metric(tmp_path / "m")
    with pytest.raises(ValueError, match=r"pass proba=classifier.predict_proba"):
        loaded.points(X[:2])
    assert loaded.points(X[:2], ["cyst", "cyst"]).u[0, 0] == 1.0
    u = est.classifier_.predict_proba(X[:2])
    np.testing.assert_array_equal(loaded.points(X[:2], proba=u).u, u)


def test_saving_replaces_in_one_step(fitted, tmp_path, monkeypatch):
    est, _, _ = fitted
    path = tmp_path / "m"
    est.metric_.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        est.metric_.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation_is_refused(fitted, tmp_path):
    est, _, _ = fitted
    path = tmp_path / "m"
    est.metric_.save(path)
    data = path.read_bytes()
    for length in range(0, len(data), 97):
        path.write_bytes(data[:length])
        with pytest.raises(BundleError, match="damaged, cut short"):
            nk.load_metric(path)


def test_a_flipped_byte_is_refused_or_changes_nothing(fitted, tmp_path):
    est, _, _ = fitted
    path = tmp_path / "m"
    est.metric_.save(path)
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 41):
        data[at] ^= 0x15
        path.write_bytes(data)
        data[at] ^= 0x15
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile warns of odd dates and names
            try:
                loaded = nk.load_metric(path)
            except BundleError:
                continue
        np.testing.assert_array_equal(loaded.weights, est.metric_.weights)
        np.testing.assert_array_equal(loaded.class_costs, est.metric_.class_costs)


def rewrite(path, change, compress=zipfile.ZIP_STORED):
    """Save the file at path again with its header or arrays changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", compress) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def header_with(**changes):
    def change(parts):
        header = json.loads(parts["header.json"])
        for key, value in changes.items():
            header[key] = value(header[key]) if callable(value) else value
        parts["header.json"] = json.dumps(header).encode()

    return change


def huge(arrays):
    arrays["weights"]["shape"] = [2**40]
    return arrays


def nan_weights(parts):
    import io

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.full(4, np.nan))
    parts["weights.npy"] = buffer.getvalue()


def pickled_weights(parts):
    import io

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([{}] * 4, dtype=object), allow_pickle=True)
    parts["weights.npy"] = buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (header_with(format=99), "format version 99; this nearkin reads version 1"),
        (header_with(kind="recipe"), "is not a nearkin metric file"),
        (header_with(arrays=huge), "declares 8796093022208 bytes; refused"),
        (header_with(classes=["a"]), "class_costs: "),
        (header_with(feature_names=["a"]), "feature_names: one for each"),
        (nan_weights, "NaN or infinity"),
        (pickled_weights, "damaged|declares|is "),
        (lambda parts: parts.pop("weights.npy"), "damaged"),
        (lambda parts: parts.update({"header.json": b"[]"}), "is not a nearkin metric"),
        (lambda parts: parts.update({"header.json": b"{"}), "damaged"),
        (header_with(classifier=None), "not a complete nearkin metric"),
    ],
)
def test_hostile_files_are_refused(fitted, tmp_path, change, message):
    est, _, _ = fitted
    path = tmp_path / "m"
    est.metric_.save(path)
    rewrite(path, change)
    with pytest.raises(BundleError, match=message):
        nk.load_metric(path)


def test_compressed_members_are_refused(fitted, tmp_path):
    est, _, _ = fitted
    path = tmp_path / "m"
    est.metric_.save(path)
    rewrite(path, lambda _: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(BundleError, match="is compressed; refused"):
        nk.load_metric(path)


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        nk.load_metric(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BundleError, match="not a nearkin metric file"):
        nk.load_metric(tmp_path / "text")
