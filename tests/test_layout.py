"""The tree: imports go one way, nothing heavy comes along, the public names are the issue's."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin as nk

SOURCE = Path(nk.__file__).parent
# Each module may import those above it.
ORDER = [
    "_version",
    "_lazy",
    "data",
    "tables",
    "pairs",
    "passes",
    "objectives",
    "ordered_logit",
    "convex_program",
    "steps",
    "solvers",
    "kernel",
    "bundle",
    "study",
    "writing",
    "points",
    "metric",
    "nearest",
    "persistence",
    "learners",
    "learners.common",
    "learners.ordinal",
    "learners.euclidean",
    "missing",
    "latent",
    "learners.convex",
    "learners.nca",
    "classifiers",
    "learners.hybrid",
    "preparation",
    "evaluation",
    "protocols",
    "selection",
    "saturating",
    "curve",
    "learning",
    "information",
    "greedy",
    "suggestion",
    "spread",
    "calibration",
    "text",
    "answers",
    "explanation",
    "explaining",
    "index.where",
    "index.common",
    "index.columns",
    "index.collection",
    "index.folder",
    "index.storage",
    "index.inmemory",
    "index.exact",
    "index.embedding",
    "index.tuning",
    "index.engines",
    "index.proposals",
    "index.trials",
    "index.approximate_build",
    "index.approximate",
    "index.postgres_connection",
    "index.postgres_rows",
    "index.postgres_schema",
    "index.postgres_search",
    "index.postgres_build",
    "index.postgres",
    "index",
    "model",
    "fitting",
    "model_file",
    "indexing",
    "exports",
    "onnx_export",
    "experiments",
    "experiments.synthetic",
    "experiments.weak_labels",
    "experiments.methods",
    "experiments.resumable",
    "experiments.synthetic_study",
    "experiments.suggesting",
    "experiments.figures",
    "experiments.report",
    "experiments.rating_figures",
    "experiments.suggesting_report",
    "experiments.synthetic_report",
    "experiments.pictures",
    "experiments.real",
    "experiments.real_report",
    "experiments.outlines",
    "experiments.lidc",
    "experiments.lidc_study",
    "experiments.demo",
    "experiments.demo_page",
    "experiments.lidc_draws",
    "experiments.lidc_report",
    "cli",
    "cli.output",
    "cli.options",
    "cli.fit",
    "cli.search",
    "cli.export",
    "cli.index",
    "cli.rating",
    "cli.demo",
    "cli.reproduce",
    "cli.evaluate",
    "cli.main",
    "cli.reference",
]
EXTRAS = {
    "index.engines": {"faiss"},
    "index.postgres_connection": {"psycopg"},
    "index.postgres_schema": {"psycopg"},
    "index.postgres_search": {"psycopg"},
    "index.postgres_build": {"psycopg"},
    "index.postgres": {"psycopg"},
    "tables": {"pyarrow"},
    "experiments.report": {"pyarrow"},
    "experiments.pictures": {"PIL"},
    "experiments.figures": {"matplotlib"},
    "explanation": {"matplotlib"},
    "curve": {"matplotlib"},
    "cli.output": {"typer", "rich"},
    "cli.reproduce": {"typer"},
    "cli.options": {"typer"},
    "cli.fit": {"typer"},
    "cli.search": {"typer"},
    "cli.export": {"typer"},
    "cli.index": {"typer"},
    "cli.rating": {"typer"},
    "cli.demo": {"typer"},
    "cli.reference": {"typer"},
    "exports": {"pyarrow"},
    "onnx_export": {"onnx"},
    "writing": {"pyarrow"},
    "cli.evaluate": {"typer"},
    "cli.main": {"typer"},
}
CORE = {"numpy", "scipy", "sklearn", "array_api_compat", "joblib", "threadpoolctl"}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, ast.parse(path.read_text())


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module, node.names
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []


def test_every_module_has_its_place():
    assert [name for name, _ in modules()] == sorted(ORDER)


def test_imports_go_one_way():
    for name, tree in modules():
        for module, names in imports(tree):
            if module.split(".")[0] == "nearkin":
                imported = module.removeprefix("nearkin").lstrip(".")
                imported = imported or names[0].name  # from nearkin import index
                assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}"


def test_the_core_needs_four_packages():
    standard = sys.stdlib_module_names
    for name, tree in modules():
        roots = {module.split(".")[0] for module, _ in imports(tree)}
        extra = EXTRAS.get(name, set())
        assert roots - standard - {"nearkin"} <= CORE | extra, name


def test_import_loads_no_extra():
    # pandas and pyarrow are not on the list: scikit-learn itself loads them where they are
    code = "import nearkin, sys; print([m for m in ('torch', 'matplotlib', 'numba', 'typer') "
    code += "if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout.strip() == "[]"


def test_the_stub_holds_public_names_only():
    tree = ast.parse((SOURCE / "__init__.pyi").read_text())
    kinds = {type(node).__name__ for node in tree.body}
    assert kinds <= {"Expr", "ImportFrom"}
    names = {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert names == set(nk.__all__) == set(dir(nk))
    assert all(hasattr(nk, name) for name in nk.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nk.nothing  # noqa: B018


def test_the_command_line_starts_without_numpy():
    code = "import nearkin, nearkin.cli.main, sys; "
    code += "print([m for m in ('numpy', 'sklearn', 'matplotlib') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name, _ in modules()])
def test_modules_stay_small(name):
    path = SOURCE / (name.replace(".", "/") + ".py")
    if not path.exists():
        path = SOURCE / name.replace(".", "/") / "__init__.py"
    assert len(path.read_text().splitlines()) <= 350
