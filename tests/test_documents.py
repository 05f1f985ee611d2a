"""README, guide and paper map: what they show runs, and what they point to exists."""

import re
from pathlib import Path

import pytest
from test_cli import run

ROOT = Path(__file__).parent.parent
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(
    "document",
    ["README.md", "docs/answers.md", "docs/guide.md", "docs/indexes.md", "docs/rating.md"],
)
def test_examples_run_as_written(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON_BLOCK.findall((ROOT / document).read_text())
    assert blocks
    scope = {}
    for block in blocks:
        exec(compile(block, document, "exec"), scope)  # noqa: S102


def test_readme_names_the_commands_that_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= named <= targets


def test_the_newcomers_path_of_the_readme_runs_as_written(tmp_path):
    lines = re.findall(r"^ {4}nearkin (.*)", (ROOT / "README.md").read_text(), re.MULTILINE)
    path = [line for line in lines if " nodules" in line]
    assert [line.split()[0] for line in path] == ["reproduce", "fit", "search", "explain"]
    for line in path:
        result = run(tmp_path, line)
        assert result.returncode == 0, result.stderr
        assert result.stdout.strip()


def rows():
    for line in (ROOT / "PAPER.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and "::" in cells[1]:
            yield cells


def references():
    for paper, code, tests in rows():
        for reference in re.findall(r"`([\w/.]+)::([\w.]+)`", f"{code} {tests}"):
            yield paper, *reference


def test_every_row_of_the_paper_map_has_code_and_a_test():
    assert len(list(rows())) >= 20
    for paper, code, tests in rows():
        assert re.search(r"`[\w/.]+::[\w.]+`", code), paper
        assert re.search(r"`tests/[\w/.]+::[\w.]+`", tests), paper


@pytest.mark.parametrize(("paper", "path", "symbol"), list(references()))
def test_the_paper_map_points_somewhere(paper, path, symbol):
    text = (ROOT / path).read_text()
    for part in symbol.split("."):
        assert re.search(rf"^\s*(def|class) {part}\b|^{part}\b.* = ", text, re.MULTILINE), paper


def test_changelog_has_the_version():
    import nearkin

    assert f"## {nearkin.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_addresses_in_constraints():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line
