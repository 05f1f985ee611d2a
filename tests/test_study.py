"""A study on disk: which tables are found, and what is said when one is missing."""

import gzip

import pytest

from nearkin.study import rating_tables, read_study

OBJECTS = "id,label,size,tint,patient,note\n" + "".join(
    f"o{i},{'cyst' if i % 2 else 'other'},{i},{i * i % 5},{i // 2},text{i}\n" for i in range(6)
)
RATINGS = "a,b,rating\no0,o1,3\no0,o2,1\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "objects.csv").write_text(OBJECTS)
    (tmp_path / "ratings.csv").write_text(RATINGS)
    return tmp_path


def test_columns_of_text_and_named_ones_become_metadata(folder):
    study = read_study(folder, meta=["patient"])
    assert study.objects.feature_names == ["size", "tint"]
    assert sorted(study.objects.meta) == ["note", "patient"]
    assert study.objects.meta["patient"].tolist() == ["0", "0", "1", "1", "2", "2"]
    assert len(study.ratings) == 2
    assert study.name == "ratings"


def test_one_of_several_ratings_must_be_named(folder):
    (folder / "ratings_visual.csv.gz").write_bytes(gzip.compress(RATINGS.encode()))
    assert sorted(rating_tables(folder)) == ["ratings", "visual"]
    assert read_study(folder, "visual").name == "visual"
    with pytest.raises(ValueError, match=r"several kinds, .*'visual'.*; name one"):
        read_study(folder)
    with pytest.raises(ValueError, match="no ratings named 'tactile'"):
        read_study(folder, "tactile")


def test_what_is_missing_is_named(tmp_path, folder):
    (folder / "ratings.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"no ratings\.csv"):
        read_study(folder)
    with pytest.raises(FileNotFoundError, match=r"no objects\.csv"):
        read_study(tmp_path / "nowhere")


def test_a_damaged_archive_is_said_to_be_one(folder):
    (folder / "ratings.csv").unlink()
    whole = gzip.compress(RATINGS.encode() * 50)
    (folder / "ratings.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a CSV table"):
        read_study(folder)
