"""The demonstration: from real nodules to a page that needs nothing else."""

import functools
import json
import re

import numpy as np
import pytest
from test_cli import run

from nearkin.experiments import demo, lidc_draws
from nearkin.experiments.lidc_study import lidc_study


@pytest.fixture
def small(monkeypatch):
    """A demonstration on few nodules, by two quick methods."""
    few = functools.partial(lidc_draws.Settings, methods=("Euclidean", "CO"), n_objects=9)
    monkeypatch.setattr(lidc_draws, "Settings", few)
    monkeypatch.setattr(demo, "N_OBJECTS", 61)
    monkeypatch.setattr(demo, "N_RATED", 20)


@pytest.mark.usefixtures("small")
def test_the_demonstration_writes_a_page_that_needs_nothing_else(tmp_path):
    result = run(tmp_path, "demo --draws 2")
    assert result.returncode == 0, result.stderr
    for said in ("NDCG@10, derived ratings, 2 draws", "Nearest to", "d2 =", "demo/report.html"):
        assert said in result.stdout
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "research software" in page
    assert page.count('<img alt="') == 4
    assert re.findall(r'(?:src|href)="(?!data:image/png;base64,)', page) == []
    again = json.loads(run(tmp_path, "demo --draws 2 --json").stdout)
    assert [row["method"] for row in again["methods"]] == ["Euclidean", "CO"]
    assert again["explanation"]["squared_distance"] == pytest.approx(
        sum(part["addend"] for part in again["explanation"]["parts"])
    )


def test_the_new_nodule_is_no_part_of_what_is_searched():
    study = lidc_study(61, 20, seed=0)
    known, new = demo.split_last_unrated(study)
    assert len(known.objects) == 60
    assert len(new) == 1
    assert new.ids[0] not in known.objects.ids
    assert len(known.ratings) == len(study.ratings)  # it was not rated
    a = study.objects.ids[study.ratings.a]
    np.testing.assert_array_equal(known.objects.ids[known.ratings.a], a)
