"""Exports: what another program does with them ranks as the metric does."""

import json

import numpy as np
import pytest
from test_model import METHODS, made_study

import nearkin as nk
from nearkin.exports import export_parquet, export_pgvector, quoted, quoted_name
from nearkin.indexing import (
    EXACT,
    build_in_postgres,
    build_index,
    check_index,
    index_folder,
    open_in_postgres,
    open_index,
)
from nearkin.onnx_export import export_onnx
from nearkin.persistence import fingerprint

HOSTILE = "o'); DROP TABLE x; --\n\\' \" \u2028 %s ${x}"


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    objects, ratings = made_study()
    meta = {**objects.meta, "label": np.array([HOSTILE] * len(objects), dtype=object)}
    ids = [HOSTILE, *objects.ids[1:]]
    objects = nk.Objects(ids, objects.X, objects.y, objects.feature_names, meta)
    preparation = nk.Preparation(correlated_above=0.95, standardise=True)
    return nk.fit_model(objects, ratings, METHODS[request.param], preparation=preparation)


def query_vector(how, features, u):
    """Follow the recipe to the letter, as another program would: no nearkin here."""
    x = (features[how["kept"]] - np.array(how["shift"])) / np.array(how["scale"])
    if "completion" in how:
        given = np.concatenate([u, x - np.array(how["completion_center"])])
        x = np.concatenate([x, given @ np.array(how["completion"])])
    f = (x - np.array(how["center"])) * np.array(how["root_weights"])
    if "classes" not in how:
        return f, 0.0
    costs = u @ np.array(how["class_costs"])
    c = np.concatenate([u, 0 * u]) if how["profiles"] else costs - costs.mean()
    side = -c / (2 * how["alpha"])
    constant = how["top"] ** 2 + side @ side - c @ np.array(how["middle"])
    constant -= 0.0 if how["profiles"] else costs.mean()
    return np.concatenate([f, side, [0.0]]), constant


def check_recipe(model, how, ids, items):
    X = model.objects.X[:5] + 0.05
    for query in model.new(X):
        u = None if query.point.u is None else query.point.u[0]
        z, constant = query_vector(how, query.values, u)
        assert z.shape == (how["dimension"],)
        d2 = np.sum((items - z) ** 2, axis=1) - constant
        order = {key: row for row, key in enumerate(model.objects.ids)}
        rows = [order[key] for key in ids]
        true = model.metric.distances(query.point, model.points, squared=True)[0]
        np.testing.assert_allclose(d2, true[rows], atol=1e-5 * true.max())


def test_parquet_carries_its_recipe(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_parquet(model, tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet")
    how = json.loads(table.schema.metadata[b"nearkin"])
    assert how["fingerprint"] == fingerprint(model.metric)
    assert table.column_names == ["id", "label", "vector", "patient", "meta.label"]
    check_recipe(model, how, table["id"].to_pylist(), np.array(table["vector"].to_pylist()))


def test_pgvector_script_runs_and_ranks(model, tmp_path, postgres_url):
    psycopg = pytest.importorskip("psycopg")
    path, name = tmp_path / "v.sql", 'odd "name"; DROP'
    export_pgvector(model, path, name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(path.read_text())
        try:
            table = quoted_name(name)
            rows = connection.execute(f"SELECT id, embedding::text, meta, label FROM {table}")  # noqa: S608
            ids, texts, metas, labels = zip(*rows.fetchall(), strict=True)
            said = connection.execute("SELECT obj_description(%s::regclass)", [table]).fetchone()[0]
            indexes = connection.execute(
                "SELECT indexdef FROM pg_indexes WHERE tablename = %s", [name]
            ).fetchall()
        finally:
            connection.execute(f"DROP TABLE {quoted_name(name)}")
    assert list(ids) == model.objects.ids.tolist()
    assert metas[0]["label"] == HOSTILE
    assert list(labels) == model.objects.y.tolist()
    assert any("hnsw" in one[0] for one in indexes)
    check_recipe(model, json.loads(said), ids, np.array([json.loads(text) for text in texts]))


def test_quoting():
    assert quoted("a'b") == "'a''b'"
    assert quoted_name('a"b') == '"a""b"'
    with pytest.raises(ValueError, match="NUL"):
        quoted("a\x00b")
    for bad in ("", "a\nb", "x" * 64):
        with pytest.raises(ValueError, match="cannot name a table"):
            quoted_name(bad)


def test_onnx_agrees_with_the_metric(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(model, tmp_path / "d.onnx")
    session = runtime.InferenceSession(str(tmp_path / "d.onnx"))
    X = model.objects.X
    new = model.new(X[:7] + 0.05)
    inputs = {"query": X[:7] + 0.05, "item": X}
    point = new[0].point
    for query in new[1:]:
        point = point.joined(query.point)
    if point.u is not None:
        inputs |= {"query_u": point.u, "item_u": model.points.u}
    K = model.metric.n_given
    if model.metric.completion is not None:
        inputs |= {"query_z": point.x[:, K:], "item_z": model.points.x[:, K:]}
    if model.metric.profiled:
        inputs |= {"query_b": point.profiles(), "item_b": model.points.profiles()}
    assert {one.name for one in session.get_inputs()} == set(inputs)
    (d,) = session.run(["distance"], inputs)
    assert d.dtype == np.float64
    np.testing.assert_allclose(d, model.metric.distances(point, model.points), rtol=1e-11)
    props = session.get_modelmeta().custom_metadata_map
    assert props["fingerprint"] == fingerprint(model.metric)


def test_an_index_is_checked_against_the_model(model, tmp_path, postgres_url):
    build_index(model, tmp_path, EXACT)
    found = check_index(model, open_index(model, tmp_path, EXACT))
    assert (found["recall"], found["objects"]) == (1.0, len(model.objects))
    assert found["distance_error"] < 1e-6
    index = build_in_postgres(model, postgres_url, "study")
    assert check_index(model, index)["recall"] > 0.95
    index.close()
    with open_in_postgres(model, postgres_url, "study") as again:
        assert len(again) == len(model.objects)
        again.drop()
    with pytest.raises(FileNotFoundError, match="no index named 'study'"):
        open_in_postgres(model, postgres_url, "study")


def test_stale_damaged_and_missing_indexes(tmp_path):
    objects, ratings = made_study()
    one = nk.fit_model(objects, ratings, nk.Euclidean())
    other = nk.fit_model(objects, ratings, nk.ConvexOptimization())
    with pytest.raises(FileNotFoundError, match="nearkin index build"):
        open_index(one, tmp_path, EXACT)
    build_index(one, tmp_path, EXACT)
    with pytest.raises(ValueError, match="another metric"):
        open_index(other, tmp_path, EXACT)
    files = (path for path in index_folder(tmp_path, EXACT).rglob("*") if path.is_file())
    big = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(big.read_bytes())
    data[len(data) // 2] ^= 0xFF
    big.write_bytes(data)
    with pytest.raises(ValueError, match=r"damaged|checksum|hash|complete|differ"):
        open_index(one, tmp_path, EXACT)
