"""A fitted model: what it answers, and what is refused of its file."""

import json
import zipfile

import numpy as np
import pytest
from conftest import random_pairs, rate

import nearkin as nk
from nearkin.bundle import BundleError
from nearkin.index.where import Where
from nearkin.persistence import fingerprint

METHODS = {
    "hybrid": nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0)),
    "profiles": nk.Hybrid(classifier=nk.KernelClassifier(penalty=1.0), missing=nk.ItemProfiles()),
    "latent": nk.Hybrid(
        classifier=nk.KernelClassifier(penalty=1.0),
        missing=nk.LatentFeatures(n_features=2, n_starts=1, from_features=True),
    ),
    "CO": nk.ConvexOptimization(),
}


def made_study(n=60):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3)) * [1.0, 100.0, 1.0] + [5.0, 0.0, 0.0]
    X = np.column_stack([X, X[:, 0] * 2.0 + 1e-3 * X[:, 2]])  # "width" repeats "size"
    y = np.array(["cyst", "metastasis", None], dtype=object)[rng.integers(0, 3, n)]
    a, b = random_pairs(rng, n, 500)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    d2 = ((z[a] - z[b]) ** 2) @ np.array([2.0, 1.0, 0.2, 0.0]) + 3.0 * (y[a] != y[b])
    meta = {"patient": np.array([f"p{i // 2}" for i in range(n)], dtype=object)}
    names = ["size", "tint", "edge", "width"]
    objects = nk.Objects([f"o{i}" for i in range(n)], X, y, names, meta)
    return objects, nk.Ratings(a, b, rate(d2, rng))


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    preparation = nk.Preparation(correlated_above=0.95, standardise=True)
    return nk.fit_model(*made_study(), METHODS[request.param], preparation=preparation)


def test_search_ranks_by_the_metric(model):
    found = model.search("o3", k=8)
    d = model.metric.distances(model.points[3], model.points)[0]
    d[3] = np.inf
    rows = np.argsort(d, kind="stable")[:8]
    assert [one.id for one in found.results] == [f"o{row}" for row in rows]
    np.testing.assert_allclose([one.distance for one in found.results], d[rows])
    assert all(0 <= one.percentile <= 100 for one in found.results)
    assert all(0 < one.similar < 1 for one in found.results)
    similar = [one.similar for one in found.results]
    assert similar == sorted(similar, reverse=True)
    assert sum(count.count for count in found.classes) == 8
    assert "Within what I know" in found.verdict


def test_filters_act_before_ranking(model):
    found = model.search("o4", k=60, where=Where(classes=["cyst"]), exclude_groups=["patient"])
    ids = [one.id for one in found.results]
    assert not {"o4", "o5"} & set(ids)
    assert {one.label for one in found.results} == {"cyst"}
    y = model.objects.y
    assert len(ids) == sum(label == "cyst" for label in y) - sum(y[row] == "cyst" for row in (4, 5))
    assert found.notes[0].startswith(f"Only {len(ids)} of 60")
    with pytest.raises(ValueError, match=r"no metadata column 'ward' to exclude by.*'patient'"):
        model.search("o4", exclude_groups=["ward"])
    nothing = model.search("o4", where=Where(classes=["unheard of"]))
    assert (len(nothing), nothing.classes) == (0, ())


def test_new_objects(model):
    X = model.objects.X[:2]
    far = X[:1] * [50.0, 1.0, 1.0, 50.0]
    near, away = model.new(
        np.concatenate([X[:1], far]), ["near", "far"], meta={"patient": ["p0", None]}
    )
    near_all = [one.id for one in model.search(near, k=60).results]
    assert {"o0", "o1"} <= set(near_all)
    rest = [one.id for one in model.search(near, k=60, exclude_groups=["patient"]).results]
    assert rest == [key for key in near_all if key not in ("o0", "o1")]
    assert not model.search(near, k=3).outside
    found = model.search(away, k=3, exclude_groups=["patient"])  # its patient is unknown
    assert found.outside
    assert "OUTSIDE" in str(found)
    with pytest.raises(ValueError, match="has 4 features"):
        model.new(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.new(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match=r"no object 'o99' among the 60.*'o0'"):
        model.search("o99")


def test_explanations_are_in_original_units(model):
    found = model.explain("o1", "o2", families={"tint": "look"})
    assert [part.name for part in found.parts[:3]] == ["size", "tint", "edge"]  # no "width"
    row = model.objects.X
    assert [found.parts[0].query, found.parts[0].item] == [row[1, 0], row[2, 0]]
    d2 = model.metric.pair_distances(model.points[1], model.points[2], squared=True)[0]
    assert found.squared_distance == pytest.approx(d2, rel=1e-9, abs=1e-12)
    # the weights are of original units, too
    weight = {entry["feature"]: entry["weight"] for entry in model.weights()}
    addend = weight["tint"] * (row[1, 1] - row[2, 1]) ** 2
    assert found.parts[1].addend == pytest.approx(addend)
    assert sum(entry["share"] for entry in model.weights()) <= 1 + 1e-9
    assert model.dropped() == [
        {"feature": "width", "repeats": "size", "correlation": pytest.approx(1.0, abs=1e-4)}
    ]


def test_a_model_from_disk_answers_the_same(model, tmp_path):
    path = tmp_path / "model.nearkin"
    nk.save_model(model, path)
    again = nk.load_model(tmp_path)
    for key in ("o0", "o7"):
        assert again.search(key, exclude_groups=["patient"]) == model.search(
            key, exclude_groups=["patient"]
        )
        assert again.explain(key, "o9") == model.explain(key, "o9")
    X = model.objects.X[:3] + 0.1
    for one, two in zip(again.new(X), model.new(X), strict=True):
        assert again.search(one) == model.search(two)
    assert again.about == model.about
    assert again.dropped() == model.dropped()
    assert again.calibration.report == model.calibration.report
    nk.save_model(again, tmp_path / "twice.nearkin")
    assert path.read_bytes() == (tmp_path / "twice.nearkin").read_bytes()


def test_the_original_units_of_a_feature_do_not_matter():
    objects, ratings = made_study()
    other = nk.Objects(
        objects.ids, objects.X * [1000.0, 1.0, 1.0, 1.0], objects.y, objects.feature_names
    )
    one, two = (nk.fit_model(o, ratings, nk.OrdinalRegression()) for o in (objects, other))
    first, second = (m.search("o3", k=5) for m in (one, two))
    assert [x.id for x in first.results] == [x.id for x in second.results]
    for x, z in zip(first.results, second.results, strict=True):
        assert (x.percentile, x.similar) == (z.percentile, pytest.approx(z.similar, abs=1e-5))


def test_too_few_ratings_give_no_probability():
    objects, ratings = made_study()
    with pytest.warns(UserWarning, match=r"no P\(similar\) can be given"):
        model = nk.fit_model(objects, ratings[:25], nk.Euclidean())
    found = model.search("o1", k=2)
    assert found.results[0].similar is None
    assert "not known" in found.notes[-1]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.nearkin"
    nk.save_model(nk.fit_model(*made_study(), METHODS["hybrid"]), path)
    return path


def test_damaged_files_are_refused(file, tmp_path):
    whole, bad = file.read_bytes(), tmp_path / "bad.nearkin"
    for cut in (0, 10, len(whole) // 2, len(whole) - 30):
        bad.write_bytes(whole[:cut])
        with pytest.raises(BundleError):
            nk.load_model(bad)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 60):
        flipped = bytearray(whole)
        flipped[place] ^= 0xFF
        bad.write_bytes(flipped)
        try:
            found = nk.load_model(bad)
        except BundleError:
            continue
        # a byte of the zip that says nothing, such as a date
        assert fingerprint(found.metric) == fingerprint(nk.load_model(file).metric)
    with pytest.raises(FileNotFoundError, match="nearkin fit"):
        nk.load_model(tmp_path)
    with pytest.raises(BundleError, match="not a nearkin metric file"):
        nk.load_metric(file)


def changed(file, path, change):
    """Write a file whose header was changed, its checksums being right."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "header.json":
                header = json.loads(data)
                change(header)
                data = json.dumps(header).encode()
            new.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("about"),
        lambda h: h.update(reach="far"),
        lambda h: h.update(threshold="high"),
        lambda h: h.update(feature_names=["one"]),
        lambda h: h.update(preparation={"unheard": 1}),
        lambda h: h.update(fingerprint="0" * 64),
        lambda h: h["metric"].update(classes=["b", "a"]),
        lambda h: h["arrays"].pop("X"),
        lambda h: h["arrays"].pop("prepared_kept_"),
    ],
)
def test_changed_headers_are_refused(file, tmp_path, change):
    with pytest.raises(BundleError):
        nk.load_model(changed(file, tmp_path / "changed.nearkin", change))
