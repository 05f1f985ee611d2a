"""Many draws of the LIDC study: resumable, repeatable, and honest about what failed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from lidc_files import pretend_package
from typer.testing import CliRunner

from nearkin.cli.main import app
from nearkin.evaluation import paired_difference
from nearkin.experiments.lidc_draws import DrawScores, Settings, read_scores, run, study_of_draw
from nearkin.experiments.lidc_report import differences, summary, verdicts, write_report
from nearkin.experiments.real import evaluate_study
from nearkin.experiments.resumable import part_file
from nearkin.study import read_study

SMALL = Settings(n_draws=2, n_objects=9, methods=("CO", "Euclidean"), k=5)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return pretend_package(tmp_path_factory.mktemp("site"))


@pytest.fixture(autouse=True)
def on_the_path(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    old = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(package), old])))


def test_scores_do_not_depend_on_processes_nor_on_interruption(tmp_path):
    assert list(run(tmp_path / "one", SMALL, 1)) == [0, 1, 2]
    list(run(tmp_path / "two", SMALL, 2))
    one, two = (read_scores(tmp_path / name, SMALL) for name in ("one", "two"))
    for method in SMALL.methods:
        np.testing.assert_array_equal(one.ndcg[method], two.ndcg[method])
    part_file(tmp_path / "two" / "draws", 0).unlink()
    assert list(run(tmp_path / "two", SMALL, 1)) == [1, 2]
    again = read_scores(tmp_path / "two", SMALL)
    np.testing.assert_array_equal(again.ndcg["CO"], one.ndcg["CO"])
    direct = evaluate_study(study_of_draw(SMALL, 1), SMALL.methods, k=5, n_jobs=1)
    np.testing.assert_array_equal(direct.scores["CO"], one.ndcg["CO"][1])
    other = Settings(n_draws=2, n_objects=9, methods=SMALL.methods, k=5, seed=1)
    with pytest.raises(ValueError, match=r"other settings.*--out"):
        list(run(tmp_path / "one", other, 1))
    ids = [study_of_draw(settings, 0).objects.ids.tolist() for settings in (other, SMALL)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_goes_on_with_what_it_had(tmp_path, end):
    command = [sys.executable, "-m", "nearkin.cli.main", "reproduce", "lidc", "--objects", "9"]
    command += ["--paper-only", "--draws", "60", "--jobs", "1", "--out", str(tmp_path / "study")]
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    draws = tmp_path / "study" / "draws"
    while not part_file(draws, 0).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(end)
    stdout, stderr = process.communicate(timeout=60)
    if end == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted: what was finished is kept" in stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    files = sorted(draws.glob("[0-9]*.csv"))
    assert 1 <= len(files) < 60
    for file in files:
        assert len(file.read_text().splitlines()) == 1 + 9 * 4
    kept = files[0].stat().st_mtime_ns
    settings = Settings(n_draws=len(files) + 1, n_objects=9, methods=("OR", "CO", "NCA", "HYB"))
    assert list(run(tmp_path / "study", settings, 1)) == [len(files), len(files) + 1]
    assert files[0].stat().st_mtime_ns == kept


def test_command_prints_data_on_stdout_and_caveats_on_stderr(tmp_path):
    command = ["reproduce", "lidc", "--objects", "6", "--draws", "2", "--paper-only", "--jobs", "1"]
    command += ["--out", str(tmp_path / "s")]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["method"] for row in found["summary"]] == ["OR", "CO", "NCA", "HYB"]
    assert "significant margin" in found["verdicts"][0]
    assert "derived" in found["verdicts"][0]
    names = {Path(file).name for file in found["files"]}
    assert names == {
        "results.parquet",
        "summary.csv",
        "differences.csv",
        "figure.png",
        "figure.svg",
    }
    table = CliRunner().invoke(app, command)
    assert "2 draws, derived ratings" in table.stdout
    assert "not pathology" in table.stderr


def test_an_exported_draw_is_the_study_itself(tmp_path):
    command = ["reproduce", "lidc", "--objects", "9", "--export", str(tmp_path / "folder")]
    assert CliRunner().invoke(app, command).exit_code == 0
    with pytest.warns(UserWarning, match="constant feature"):
        exported = read_study(tmp_path / "folder")
    direct = study_of_draw(SMALL, 0)
    assert exported.name == "derived"
    np.testing.assert_array_equal(exported.objects.X, direct.objects.X)
    assert exported.objects.y.tolist() == direct.objects.y.tolist()
    assert exported.objects.meta["patient"].tolist() == direct.objects.meta["patient"].tolist()
    for name in ("a", "b", "level", "rater"):
        np.testing.assert_array_equal(
            getattr(exported.ratings, name), getattr(direct.ratings, name)
        )


def made_up_scores(lead, failed=()):
    rng = np.random.default_rng(0)
    ndcg = {m: 0.6 + rng.normal(scale=0.02, size=(20, 30)) for m in ("OR", "CO", "NCA", "HYB")}
    ndcg["HYB"] = ndcg["HYB"] + lead
    none = dict.fromkeys(ndcg, 0)
    return DrawScores(ndcg, none | dict.fromkeys(failed, 2), none)


def test_verdict_follows_the_numbers():
    settings = Settings(methods=("OR", "CO", "NCA", "HYB"))
    (sentence,) = verdicts(made_up_scores(0.05), settings)
    assert "'HYB leads by a significant margin': holds" in sentence
    scores = made_up_scores(0.0)
    (sentence,) = verdicts(scores, settings)
    assert "is not shown" in sentence
    expected = paired_difference(scores.ndcg["HYB"].mean(axis=1), scores.ndcg["CO"].mean(axis=1))
    assert f"CO {expected}" in sentence
    assert verdicts(made_up_scores(0.05, failed=["HYB"]), settings) == []


def test_a_failure_is_shown_and_not_compared(tmp_path):
    scores = made_up_scores(0.0, failed=["CO"])
    rows = {row["method"]: row for row in summary(scores)}
    assert np.isnan(rows["CO"]["mean"])
    assert rows["CO"]["failed"] == 2
    assert {row["method"] for row in differences(scores)} == {"OR", "NCA"}


def test_report_of_one_draw(tmp_path):
    settings = Settings(n_draws=1, n_objects=9, methods=("CO", "Euclidean"), k=5)
    list(run(tmp_path, settings, 1))
    files, sentences = write_report(tmp_path, settings)
    assert sentences == []
    assert all(file.stat().st_size > 60 for file in files)
