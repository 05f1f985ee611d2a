import numpy as np
import pytest

import nearkin as nk

OBJECTS = "id,label,size,margin\np1,cyst,4.1,1\np2,,12.0,2\np3,hemangioma,7.5,5\n"
RATINGS = "a,b,rating,rater\np1,p2,3,anna\np2,p3,1,ben\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "objects.csv").write_text(OBJECTS)
    (tmp_path / "ratings.csv").write_text(RATINGS)
    return tmp_path


def check(objects, ratings):
    assert objects.ids.tolist() == ["p1", "p2", "p3"]
    assert objects.y.tolist() == ["cyst", None, "hemangioma"]
    assert objects.feature_names == ["size", "margin"]
    np.testing.assert_array_equal(objects.X, [[4.1, 1], [12, 2], [7.5, 5]])
    assert ratings.a.tolist() == [0, 1]
    assert ratings.b.tolist() == [1, 2]
    assert ratings.level.tolist() == [3, 1]
    assert ratings.rater.tolist() == ["anna", "ben"]


def test_csv(folder):
    objects = nk.read_objects(folder / "objects.csv")
    check(objects, nk.read_ratings(str(folder / "ratings.csv"), objects))


def test_csv_with_byte_order_mark_and_blank_lines(folder):
    path = folder / "objects.csv"
    path.write_text("\n" + OBJECTS + "\n\n", encoding="utf-8-sig")
    assert len(nk.read_objects(path)) == 3


def test_dataframe_and_parquet(folder):
    pd = pytest.importorskip("pandas")
    frames = [pd.read_csv(folder / name) for name in ("objects.csv", "ratings.csv")]
    objects = nk.read_objects(frames[0])
    check(objects, nk.read_ratings(frames[1], objects))
    for frame, name in zip(frames, ("o", "r"), strict=True):
        frame.to_parquet(folder / f"{name}.parquet")
    objects = nk.read_objects(folder / "o.parquet")
    check(objects, nk.read_ratings(folder / "r.parquet", objects))


def test_ids_meet_as_text():
    objects = nk.read_objects({"id": [7, 8], "size": [1, 2]})
    ratings = nk.read_ratings({"a": ["7"], "b": [8.0], "rating": ["2"]}, objects)
    assert (ratings.a.tolist(), ratings.b.tolist()) == ([0], [1])
    assert nk.read_ratings({"a": [7], "b": [8], "rating": [2]}, [7, 8]).level.tolist() == [2]


def test_all_bad_object_rows_in_one_error(tmp_path):
    path = tmp_path / "objects.csv"
    path.write_text("id,label,size,margin\np1,c,4,x\np1,c,nan,1\n,c,inf,2\np4,c,1,3\n")
    with pytest.raises(ValueError, match="cannot be used") as caught:
        nk.read_objects(path)
    text = str(caught.value)
    assert "id seen before: line 3" in text
    assert "no id: line 4" in text
    assert "feature 'size' is not a finite number: line 3, line 4" in text
    assert "feature 'margin' is not a finite number: line 2" in text


def test_all_bad_rating_rows_in_one_error(folder):
    path = folder / "ratings.csv"
    path.write_text("a,b,rating,weight\np1,zz,3,1\np1,p1,3,1\np1,p2,7,1\np1,p3,,1\np1,p2,2,0\n")
    with pytest.raises(ValueError, match="cannot be used") as caught:
        nk.read_ratings(path, nk.read_objects(folder / "objects.csv"))
    text = str(caught.value)
    assert "unknown id in column 'b' (such as zz): line 2" in text
    assert "against itself: line 3" in text
    assert "not a whole number in 1..3 (n_levels= sets the scale): line 4, line 5" in text
    assert "weight is not a positive number: line 6" in text


def test_a_column_of_words_asks_for_features():
    table = {"id": ["p", "q"], "picture": ["p.png", "q.png"], "size": [1, 2]}
    with pytest.raises(ValueError, match=r"'picture' holds no numbers.*features="):
        nk.read_objects(table)
    assert nk.read_objects(table, features=["size"]).X.tolist() == [[1.0], [2.0]]


def test_ragged_csv_and_repeated_columns(tmp_path):
    path = tmp_path / "objects.csv"
    path.write_text("id,size,size\np1,1,2\np2,1\n")
    with pytest.raises(ValueError, match=r"(?s)repeated.*not 3 cells as in the header: line 3"):
        nk.read_objects(path)


def test_repeated_ids_are_refused_wherever_they_come_from():
    # the last of them once won silently
    with pytest.raises(ValueError, match="ids seen before in rows 2"):
        nk.read_ratings({"a": ["p"], "b": ["r"], "rating": [1]}, ["p", "q", "q", "r"])


def test_tables_that_are_none_say_so(tmp_path):
    with pytest.raises(TypeError, match="list of column names"):
        nk.read_objects({"id": ["p"], "size": [1]}, features="size")
    with pytest.raises(ValueError, match="DataFrame or a dict"):
        nk.read_objects([{"id": "p", "size": 1}])
    with pytest.raises(TypeError, match=r"nearkin\.read_objects first"):
        nk.read_ratings({"a": ["p"], "b": ["q"], "rating": [1]}, {"id": ["p", "q"]})
    (tmp_path / "o.CSV").write_text("id, size\np,1\nq,2\n")
    assert nk.read_objects(tmp_path / "o.CSV").feature_names == ["size"]
    (tmp_path / "p.csv").write_text(",id,size\n0,p,1\n")
    with pytest.raises(ValueError, match="repeated or empty"):
        nk.read_objects(tmp_path / "p.csv")


def test_arrow_tables():
    pa = pytest.importorskip("pyarrow")
    objects = nk.read_objects(pa.table({"id": [7, 8], "size": [1.0, 2.0]}))
    assert objects.ids.tolist() == ["7", "8"]


def test_constant_feature_warns():
    with pytest.warns(UserWarning, match=r"constant feature\(s\) size"):
        nk.read_objects({"id": ["p", "q"], "size": [1, 1], "margin": [1, 2]})


def test_missing_things_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file to read objects"):
        nk.read_objects(tmp_path / "no.csv")
    (tmp_path / "o.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"\.csv, \.csv\.gz, \.parquet"):
        nk.read_objects(tmp_path / "o.xlsx")
    with pytest.raises(ValueError, match="no column 'rating'"):
        nk.read_ratings({"a": ["p"], "b": ["q"]}, ["p", "q"])
    with pytest.raises(ValueError, match="no rows"):
        nk.read_objects({"id": [], "size": []})
    with pytest.raises(ValueError, match="no feature columns"):
        nk.read_objects({"id": ["p"]})
    (tmp_path / "b.csv").write_bytes(b"id,size\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="not a CSV table"):
        nk.read_objects(tmp_path / "b.csv")
