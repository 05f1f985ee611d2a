"""The whole study: resumable, repeatable, and the bounds what they claim to be."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from nearkin.cli.main import app
from nearkin.experiments.methods import PAPER
from nearkin.experiments.synthetic import draw_study, sample_model
from nearkin.experiments.synthetic_report import verdicts, write_report
from nearkin.experiments.synthetic_study import (
    Settings,
    model_file,
    read_scores,
    run,
    score_model,
    true_class_costs,
)

SMALL = Settings(n_models=3, n_objects=60, n_train=30, fractions=(0.2, 0.4), methods=PAPER)


def finish(folder, settings, n_jobs=1):
    return list(run(folder, settings, n_jobs))


def test_scores_do_not_depend_on_the_number_of_processes(tmp_path):
    assert finish(tmp_path / "one", SMALL) == [0, 1, 2, 3]
    finish(tmp_path / "two", SMALL, n_jobs=2)
    one, two = (read_scores(tmp_path / name, SMALL) for name in ("one", "two"))
    for method in PAPER:
        np.testing.assert_array_equal(one[method], two[method])


def test_a_run_goes_on_where_it_stopped(tmp_path):
    finish(tmp_path, SMALL)
    whole = read_scores(tmp_path, SMALL)
    kept = model_file(tmp_path, 0).stat().st_mtime_ns
    model_file(tmp_path, 1).unlink()
    assert finish(tmp_path, SMALL) == [2, 3]
    assert model_file(tmp_path, 0).stat().st_mtime_ns == kept
    again = read_scores(tmp_path, SMALL)
    for method in PAPER:
        np.testing.assert_array_equal(again[method], whole[method])


def test_a_killed_run_leaves_whole_files_only(tmp_path):
    command = [sys.executable, "-m", "nearkin.cli.main", "reproduce", "synthetic", "--out"]
    options = [str(tmp_path / "study"), "--models", "40", "--paper-only", "--jobs", "1"]
    process = subprocess.Popen(  # noqa: S603
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    settings = Settings(n_models=40, methods=PAPER)
    deadline = time.monotonic() + 60
    while not model_file(tmp_path / "study", 1).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    files = sorted((tmp_path / "study" / "models").glob("[0-9]*.csv"))
    assert 2 <= len(files) < 40
    for index, file in enumerate(files):
        lines = file.read_text().splitlines()
        assert len(lines) == 1 + len(PAPER) * len(settings.fractions), file
        rows = score_model(settings, index)
        assert [line.split(",")[-1] for line in lines[1:]] == [repr(row[-1]) for row in rows]
        break  # one is enough: each takes a second


def test_other_settings_need_another_folder(tmp_path):
    finish(tmp_path, SMALL)
    other = Settings(n_models=3, n_objects=60, n_train=30, fractions=(0.2,), methods=PAPER)
    with pytest.raises(ValueError, match=r"other settings.*--out"):
        finish(tmp_path, other)


def test_report_has_everything(tmp_path):
    finish(tmp_path, SMALL)
    files, sentences = write_report(tmp_path, SMALL)
    names = {file.name for file in files}
    assert names == {
        "results.parquet",
        "summary.csv",
        "differences.csv",
        "figure.png",
        "figure.svg",
    }
    assert all(file.stat().st_size > 100 for file in files)
    assert "HYB leads" in sentences[0]
    assert "grows with the ratings" in sentences[1]


def test_verdicts_follow_the_numbers():
    settings = Settings(fractions=(0.05, 0.15), methods=PAPER)
    noise = np.random.default_rng(0).normal(scale=0.01, size=(100, 2))
    scores = dict.fromkeys(PAPER, 0.5 + noise)
    scores["HYB"] = 0.5 + noise[::-1] + np.array([0.0, 0.05])
    assert all("holds" in sentence for sentence in verdicts(scores, settings))
    scores["HYB"] = 0.5 + noise[::-1]
    assert all("is not shown" in sentence for sentence in verdicts(scores, settings))


def test_true_class_costs_are_expected_distances():
    rng = np.random.default_rng(0)
    model = sample_model(rng, n_missing=4)
    _, z, c = model.sample(60_000, rng)
    Q = true_class_costs(model)
    for i in range(3):
        for j in range(3):
            n = min((c == i).sum(), (c == j).sum()) // 2
            first, second = z[c == i][:n], z[c == j][n : 2 * n]
            mean = (((first - second) ** 2) @ model.r_missing).mean()
            assert Q[i, j] == pytest.approx(mean, rel=0.03)


def test_knowing_everything_ranks_almost_perfectly():
    settings = Settings(noise=0.0, fractions=(0.1,), methods=("true r and z", "Euclidean"))
    rows = {method: value for _, _, method, value in score_model(settings, 0)}
    assert rows["true r and z"] == pytest.approx(1.0)
    assert rows["Euclidean"] < 0.8


def test_study_of_other_sizes():
    rng = np.random.default_rng(0)
    study = draw_study(rng, sample_model(rng, 5, 6, 2), 40, 25)
    assert study.X.shape == (40, 5)
    assert study.Z.shape == (40, 6)
    assert study.query_levels.shape == (15, 25)


def test_command_prints_data_on_stdout(tmp_path):
    import json

    command = ["reproduce", "synthetic", "--models", "2", "--objects", "60", "--train", "30"]
    command += ["--paper-only", "--fraction", "0.3", "--out", str(tmp_path / "s"), "--jobs", "1"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {row["method"] for row in found["summary"]} == set(PAPER)
    table = CliRunner().invoke(app, command)
    assert "NDCG@10, 2 models" in table.stdout


def test_errors_have_no_traceback(tmp_path):
    finish(tmp_path, SMALL)
    command = [sys.executable, "-m", "nearkin.cli.main", "reproduce", "synthetic", "--out"]
    run_ = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)  # noqa: S603, PLW1510
    assert run_.returncode == 1
    assert run_.stderr.startswith("error: ")
    assert "Traceback" not in run_.stderr
