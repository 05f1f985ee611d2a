"""Hand-made numbers of pictures."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from nearkin.cli.main import app
from nearkin.experiments.pictures import (
    SIDE,
    objects_with_pictures,
    picture_numbers,
    read_picture,
)


def test_numbers_of_plain_and_striped_pictures():
    red = picture_numbers(np.broadcast_to([1.0, 0.0, 0.0], (SIDE, SIDE, 3)))
    assert red["light_mean"] == pytest.approx(1 / 3)
    assert red["red_green_mean"] == pytest.approx(1.0)
    assert red["blue_yellow_mean"] == pytest.approx(-0.5)
    assert [red["light_sd"], red["light_skewness"]] == pytest.approx([0, 0])
    assert not any(value for name, value in red.items() if name.startswith("edges"))
    stripes = np.zeros((SIDE, SIDE, 3))
    stripes[:, ::8] = 1.0  # edges run down, brightness changes to the right
    numbers = picture_numbers(stripes)
    across = sum(value for name, value in numbers.items() if name.startswith("edges_0"))
    assert across == pytest.approx(1.0)
    turned = picture_numbers(np.swapaxes(stripes, 0, 1))
    assert sum(v for name, v in turned.items() if name.startswith("edges_4")) == pytest.approx(1.0)
    assert len(numbers) == 89


def test_thumbnail_tells_where_it_is_light():
    half = np.zeros((SIDE, SIDE, 3))
    half[: SIDE // 2] = 1.0
    numbers = picture_numbers(half)
    assert numbers["light_tile_03"] == 1.0
    assert numbers["light_tile_30"] == 0.0


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    rows, ratings = ["id,label,picture"], ["a,b,rating"]
    for i in range(8):
        colour = [200, 30, 30] if i % 2 else [30, 30, 200]
        pixels = np.clip(colour + rng.normal(scale=20, size=(40, 30, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{i}.png")
        rows.append(f"p{i},{'ab'[i % 2]},pictures/{i}.png")
        ratings += [f"p{i},p{j},{3 if (i - j) % 2 == 0 else 1}" for j in range(i)]
    (tmp_path / "objects.csv").write_text("\n".join(rows))
    (tmp_path / "ratings.csv").write_text("\n".join(ratings))
    return tmp_path


def test_a_study_of_pictures_is_evaluated_as_it_lies(folder):
    command = ["evaluate", str(folder), "--pictures", "picture", "--jobs", "1", "--json"]
    result = CliRunner().invoke(app, [*command, "--method", "Euclidean", "--correlation", "1"])
    assert result.exit_code == 0, result.output
    (kind,) = json.loads(result.stdout)
    assert kind["n_features"] == 89
    assert kind["summary"][0]["ndcg"] > 0.95  # colour is all there is to see


def test_picture_sizes_and_kinds_do_not_matter(tmp_path):
    grey = Image.fromarray(np.full((10, 300), 128, dtype=np.uint8))
    grey.save(tmp_path / "g.png")
    rgb = read_picture(tmp_path / "g.png")
    assert rgb.shape == (SIDE, SIDE, 3)
    np.testing.assert_allclose(rgb, 128 / 255)


def test_pictures_that_cannot_be_read_are_named_together(folder):
    (folder / "pictures" / "3.png").write_text("no picture")
    (folder / "pictures" / "5.png").unlink()
    with pytest.raises(ValueError, match=r"3\.png.*5\.png.*line 5, line 7"):
        objects_with_pictures(folder, "picture")
