"""The command line as a newcomer meets it: what is printed where, and how it ends."""

import contextlib
import csv
import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_model import made_study

import nearkin as nk
from nearkin import selection
from nearkin.cli import output
from nearkin.cli.main import run_app
from nearkin.cli.reference import commands, split_help, updated
from nearkin.index import IVF
from nearkin.study import StudyFolder, write_study

COMMANDS = dict(commands())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a study, fitted, and the tables that the examples name."""
    home = tmp_path_factory.mktemp("home")
    study = StudyFolder("ratings", *made_study(40))
    write_study(home / "my-study", study)
    rename = {"id": "case", "a": "left", "b": "right", "rating": "score"}
    for old, new in (("objects", "cases"), ("ratings", "pairs")):
        text = (home / "my-study" / f"{old}.csv").read_text()
        rows = list(csv.reader(text.splitlines()))
        rows[0] = [rename.get(name, name) for name in rows[0]]
        with (home / f"{new}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    result = run(home, "fit my-study --method or")
    assert result.returncode == 0, result.stderr
    run(home, "index build my-study")
    return home


def run(home, text):
    """Run a command in this process, as the program would: its exit code and both streams."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    arguments = ["nearkin", *(shlex.split(text) if isinstance(text, str) else text)]
    with (
        contextlib.chdir(home),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as outside of pytest: shown, not raised
        patch.setattr(sys, "argv", arguments)
        patch.setattr(sys, "excepthook", sys.__excepthook__)
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        patch.setenv("COLUMNS", "200")
        patch.setattr(output, "DEBUG", False)
        try:
            run_app()
        except SystemExit as end:
            code = end.code or 0
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def program(home, *arguments, **environment):
    """Run the real program."""
    command = [sys.executable, "-m", "nearkin.cli.main", *arguments]
    return subprocess.run(  # noqa: S603
        command,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def example_of(command):
    return split_help(command)[1].removeprefix("nearkin ")


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_is_explained(words):
    command = COMMANDS[words]
    assert example_of(command), f"{words}: no example"
    for parameter in command.params:
        assert parameter.help, f"{words}: {parameter.name} has no help"
    assert any("--json" in parameter.opts for parameter in command.params)


# run by tests of their own
ELSEWHERE = {"evaluate", "reproduce synthetic", "reproduce lidc", "reproduce suggesting", "demo"}


@pytest.fixture
def quick(monkeypatch):
    """Let cross-validation have two methods only."""
    few = {name: est for name, est in selection.candidates(0).items() if "Euc" in name}
    monkeypatch.setattr(selection, "candidates", lambda *_: few)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("words", sorted(set(COMMANDS) - ELSEWHERE))
def test_examples_run_as_printed(words, made):
    example = example_of(COMMANDS[words])
    result = run(made, example)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    result = run(made, f"{example.replace('new-study', 'newer-study')} --json")
    assert result.returncode == 0, result.stderr
    json.loads(result.stdout)  # and nothing else


def test_the_reference_is_up_to_date():
    page = Path(__file__).parent.parent / "docs" / "cli.md"
    text = page.read_text()
    assert updated(text) == text, "run: python -m nearkin.cli.reference docs/cli.md"
    for name, command in commands():
        assert f"### nearkin {name}" in text
        for parameter in command.params:
            assert all(f"`{option}`" in text for option in parameter.opts if option[0] == "-")


def test_the_newcomers_path(tmp_path):
    write_study(tmp_path / "lesions", StudyFolder("ratings", *made_study()))
    fitted = run(tmp_path, "fit lesions")
    assert fitted.returncode == 0, fitted.stderr
    assert "Written: lesions/model.nearkin" in fitted.stdout
    for said in ("converged", "size", "Costs of class pairs", "P(similar)", "width repeats size"):
        assert said in fitted.stdout
    found = program(tmp_path, "search", "lesions", "--like", "o3")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("Nearest to o3\n")
    assert "collection" in found.stdout
    told = run(tmp_path, "explain lesions o3 o5 --html e.html")
    assert told.returncode == 0, told.stderr
    assert "against" in told.stdout
    assert told.stderr == "Written: e.html\n"
    assert (tmp_path / "e.html").read_text().startswith("<!doctype html>")


def test_errors_are_one_message(made):
    wrong = program(made, "search", "my-study", "--like", "nobody")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("error: there is no object 'nobody' among the 40")
    assert "Traceback" not in wrong.stderr
    shown = run(made, "--debug search my-study --like nobody")
    assert "Traceback" in shown.stderr
    as_json = run(made, "search my-study --like nobody --json")
    assert (as_json.returncode, as_json.stdout) == (1, "")
    assert "nobody" in json.loads(as_json.stderr)["error"]
    usage = run(made, "search my-study --like o1 --where patient --json")
    assert usage.returncode == 2
    assert "name=value" in json.loads(usage.stderr)["error"]


def test_a_fault_of_ours_is_code_3(made, monkeypatch):
    monkeypatch.setattr("nearkin.model_file.load_model", lambda _: 1 / 0)
    result = run(made, "search my-study --like o1")
    assert result.returncode == 3
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupt_is_a_clean_stop(made, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("nearkin.model_file.load_model", interrupted)
    for text in ("search my-study --like o1", "search my-study --like o1 --json"):
        result = run(made, text)
        assert (result.returncode, result.stdout) == (130, "")
        assert result.stderr.startswith("interrupted")
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("search nowhere --like o1", 1, "nearkin fit"),
        ("search my-study", 2, "--like"),
        ("search my-study --like o1 -k 0", 2, "-k"),
        ("search my-study --like o1 --exclude-group ward", 1, "'ward'"),
        ("search my-study --like o1 --where ward=3", 1, "'ward'"),
        ("search my-study --like o1 --out r.xls", 1, ".parquet"),
        ("search my-study --features cases.csv --like zz", 1, "'zz'"),
        ("explain my-study o1", 2, "b}"),
        ("explain my-study o1 o2 --family colour=look", 1, "'colour'"),
        ("explain my-study o1 o2 --figure why.gif", 1, ".svg"),
        ("fit my-study --method magic", 1, "hybrid-latent"),
        ("fit nowhere", 1, "objects.csv"),
        ("index check cases.csv", 1, "nearkin model"),
        ("index check my-study --approximate", 1, ""),
        ("export my-study --to pgvector --out x.sql --table ''", 1, "name a table"),
        ("import my-study --objects cases.csv --ratings pairs.csv", 1, "--force"),
        ("suggest my-study -n 100000", 1, "are left to rate"),
        ("suggest my-study --ratings other", 1, "holds no ratings named 'other'"),
        ("import new --objects cases.csv --ratings pairs.csv", 1, "no column 'id'"),
    ],
)
def test_what_goes_wrong_is_said(text, code, said, made):
    result = run(made, text)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_approximate_index_is_built_and_checked(tmp_path, monkeypatch):
    # few objects would be searched exactly, whatever is asked for
    monkeypatch.setattr("nearkin.index.approximate.SMALL", 100)
    monkeypatch.setattr("nearkin.index.approximate.AUTOMATIC", (IVF(),))
    monkeypatch.setattr(
        "nearkin.index.trials.Trial._seconds",
        lambda self, search: 1e-3 if hasattr(search, "func") else 1.0,
    )
    write_study(tmp_path / "my-study", StudyFolder("ratings", *made_study(200)))
    assert run(tmp_path, "fit my-study --method or").returncode == 0
    built = run(tmp_path, "index build my-study --approximate")
    assert built.returncode == 0, built.stderr
    assert "ApproximateIndex(200 objects, IVF(cells=None, coded=False))" in built.stdout
    (engine,) = (tmp_path / "my-study" / "index-approximate").glob("*/engine.faiss")
    checked = run(tmp_path, "index check my-study --approximate --json")
    assert checked.returncode == 0, checked.stderr
    found = json.loads(checked.stdout)
    assert found["recall"] >= 0.97
    assert found["distance_error"] < 1e-9
    engine.write_bytes(engine.read_bytes()[:-1])
    damaged = run(tmp_path, "index check my-study --approximate")
    assert damaged.returncode == 1
    assert "engine.faiss is damaged or cut short" in damaged.stderr
    assert "Traceback" not in damaged.stderr


def test_filters_and_files(made):
    found = run(
        made,
        "search my-study --like o3 --like o4 -k 6 --class cyst --exclude patient=p0 "
        "--exclude-group patient --out r.csv --json",
    )
    answers = json.loads(found.stdout)
    assert [answer["query"] for answer in answers] == ["o3", "o4"]
    rows = list(csv.DictReader((made / "r.csv").read_text().splitlines()))
    assert [row["id"] for row in rows if row["query"] == "o3"] == [
        one["id"] for one in answers[0]["results"]
    ]
    assert {row["label"] for row in rows} == {"cyst"}
    assert not {"o0", "o1", "o2", "o3"} & {row["id"] for row in rows if row["query"] == "o3"}
    only = run(made, "search my-study --like o3 --where patient=p7 --where patient=p8 --json")
    ids = {one["id"] for one in json.loads(only.stdout)[0]["results"]}
    assert ids == {"o14", "o15", "o16", "o17"}


def test_what_to_rate_next_is_not_rated_yet(made):
    run(made, "fit my-study --method or --out own.nearkin")
    result = run(made, "suggest own.nearkin --study my-study -n 4 --out next.csv --json")
    assert result.returncode == 0, result.stderr
    found = [(row["a"], row["b"]) for row in json.loads(result.stdout)]
    rows = list(csv.DictReader((made / "next.csv").read_text().splitlines()))
    assert [(row["a"], row["b"]) for row in rows] == found
    rated = list(csv.DictReader((made / "my-study" / "ratings.csv").read_text().splitlines()))
    assert len(found) == 4
    objects, rated_ = made_study(40)
    est = nk.OrdinalRegression(ridge=1.0)
    x = nk.Preparation(correlated_above=0.95).fit_transform(objects.X)
    same = nk.suggest_pairs(est.fit(x, None, rated_), x, None, rated_, 4).as_rows(objects.ids)
    assert [(row["a"], row["b"]) for row in same] == found
    assert not {frozenset(pair) for pair in found} & {
        frozenset([row["a"], row["b"]]) for row in rated
    }


def test_new_objects_come_from_a_table(made):
    objects, _ = made_study()
    columns = {name: objects.X[:2, k] for k, name in enumerate(objects.feature_names)}
    with (made / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(list(columns)[::-1])  # the order of the columns is free, id may lack
        writer.writerows(np.column_stack(list(columns.values())[::-1]).tolist())
    answers = json.loads(run(made, "search my-study --features new.csv -k 1 --json").stdout)
    assert [answer["query"] for answer in answers] == ["new 1", "new 2"]
    assert [answer["results"][0]["id"] for answer in answers] == ["o0", "o1"]
    told = run(made, "explain my-study 'new 2' o1 --features new.csv --json")
    parts = json.loads(told.stdout)["parts"]
    assert sum(one["addend"] for one in parts if one["kind"] == "feature") < 1e-9


def test_a_formula_in_an_id_stays_text(tmp_path):
    objects, ratings = made_study()
    objects.ids[1], objects.ids[2] = "=HYPERLINK(1)", "\x1b[31mred"
    write_study(tmp_path / "s", StudyFolder("ratings", objects, ratings))
    assert run(tmp_path, "fit s --method euclidean").returncode == 0
    found = run(tmp_path, "search s --like o0 -k 59 --out r.csv")
    assert found.returncode == 0, found.stderr
    assert "\x1b" not in found.stdout
    assert [
        row["id"]
        for row in csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
        if "HYPER" in row["id"]
    ] == ["'=HYPERLINK(1)"]


def test_without_labels_ratings_are_enough(tmp_path):
    objects, ratings = made_study()
    objects.y[:] = None
    write_study(tmp_path / "s", StudyFolder("ratings", objects, ratings))
    found = json.loads(run(tmp_path, "fit s --json").stdout)
    assert found["about"]["method"].startswith("OrdinalRegression")
    assert found["class_costs"] is None


@pytest.mark.parametrize(
    "method", ["hybrid-profiles", "hybrid-latent", "hybrid-latent-x", "co", "nca", "euclidean"]
)
def test_every_method_can_be_fitted(method, tmp_path):
    write_study(tmp_path / "s", StudyFolder("ratings", *made_study(36)))
    result = run(tmp_path, f"fit s --method {method} --folds 2 --json")
    assert result.returncode == 0, result.stderr
    assert run(tmp_path, "search s --like o1 -k 2").returncode == 0


@pytest.mark.usefixtures("quick")
def test_the_best_method_can_be_fitted(tmp_path):
    write_study(tmp_path / "s", StudyFolder("ratings", *made_study(36)))
    result = run(tmp_path, "fit s --method select --folds 2 --out s/best.nearkin")
    assert result.returncode == 0, result.stderr
    assert "selected: Euclidean" in result.stderr
    assert run(tmp_path, "search s/best.nearkin --like o1").returncode == 0


def test_an_import_is_clean(made):
    result = run(
        made,
        "import other --objects cases.csv --ratings pairs.csv --id case --a left --b right "
        "--rating score --meta edge --json",
    )
    found = json.loads(result.stdout)
    assert found["features"] == ["size", "tint", "width"]
    assert found["meta"] == ["edge", "patient"]
    bad = (made / "pairs.csv").read_text().replace("o1,", "stranger,", 2)
    (made / "bad.csv").write_text(bad)
    result = run(
        made,
        "import bad --objects cases.csv --ratings bad.csv --id case --a left --b right "
        "--rating score",
    )
    assert result.returncode == 1
    assert "stranger" in result.stderr
    assert "line " in result.stderr
    assert not (made / "bad").exists()


def test_a_pipe_that_closes_is_no_fault(made):
    command = f"{sys.executable} -m nearkin.cli.main search my-study --like o1 -k 50 | head -1"
    result = subprocess.run(  # noqa: S602
        command, shell=True, cwd=made, capture_output=True, text=True, check=False
    )
    assert result.stdout.startswith("Nearest")
    assert "Traceback" not in result.stderr
    assert "Error" not in result.stderr


def test_no_colour_where_none_is_wanted(made):
    for environment in ({}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        assert "\x1b[3" not in program(made, "--help", **environment).stdout
    assert "\x1b" not in run(made, "fit my-study --method euclidean").stdout
