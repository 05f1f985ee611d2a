"""What a person is told about a search."""

import json

import pytest

from nearkin.answers import Neighbour, Neighbours, class_shares, count_classes, verdict

LABELS = ["cyst", "cyst", "other", None, float("nan"), "other", "other", "other", "other", "other"]


def answer(label="cyst", similar=0.71):
    shares = class_shares(LABELS)
    results = tuple(
        Neighbour(i + 1, f"o{i}", kind, 0.5 + i, 0.3, similar)
        for i, kind in enumerate([label, "cyst", "other", "cyst", None])
    )
    counts = count_classes([found.label for found in results], shares)
    return Neighbours("q", results, counts, *verdict(1.0, 2.0, similar))


def test_counts_stand_beside_the_collections_shares():
    assert class_shares(LABELS) == {"cyst": 0.2, "other": pytest.approx(0.6), None: 0.2}
    told = [str(found) for found in answer().classes]
    assert told == [
        "3 of 5 cyst (collection 20%)",
        "1 of 5 no label (collection 20%)",
        "1 of 5 other (collection 60%)",
    ]
    assert count_classes([None, None], {None: 1.0}) == ()


def test_everything_can_be_written_down():
    found = answer()
    again = json.loads(found.to_json())
    assert again["results"][0] == {
        "rank": 1,
        "id": "o0",
        "label": "cyst",
        "distance": 0.5,
        "percentile": 0.3,
        "similar": 0.71,
    }
    rows = found.as_rows()
    assert [row["id"] for row in rows] == ["o0", "o1", "o2", "o3", "o4"]
    assert rows[4]["label"] is None
    assert len(found) == 5
    text = str(found)
    assert "3 of 5 cyst (collection 20%)" in text
    assert "0.71" in text


def test_no_probability_is_said_when_there_is_none():
    found = answer(similar=None)
    assert found.results[0].similar is None
    assert "0.71" not in str(found)
    json.loads(found.to_json())


def test_nothing_found_is_an_answer():
    empty = Neighbours("q", (), (), False, "Within what I know.")
    assert str(empty) == "Nearest to q\nWithin what I know."
    assert "<table" in empty._repr_html_()


def test_hostile_labels_stay_text():
    page = answer(label="<img src=x onerror=alert(1)>")._repr_html_()
    assert "<img" not in page
    assert "&lt;img" in page


def test_verdicts():
    assert verdict(3.0, 2.0, 0.9)[0]
    assert "OUTSIDE what I know: by its features it lies 1.5 times" in verdict(3.0, 2.0, 0.9)[1]
    assert "farther than" in verdict(1.0, 0.0, None)[1]
    assert verdict(2.0, 2.0, 0.9) == (False, "Within what I know.")
    assert "nothing is really similar" in verdict(1.0, 2.0, 0.2)[1]
    assert verdict(1.0, 2.0, None) == (False, "Within what I know.")
