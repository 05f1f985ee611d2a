"""``nearkin index``: indexes of a fitted model's collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options, output

app = typer.Typer(help="Build and check indexes of a fitted model.", no_args_is_help=True)

Approximate = Annotated[
    bool, typer.Option(help="Faster than exact for many objects; finds 99 % of the nearest.")
]
Postgres = Annotated[
    str | None,
    typer.Option(envvar="NEARKIN_POSTGRES", help="postgresql://user:password@host/database."),
]
Name = Annotated[
    str | None, typer.Option(help="Of the index in the database; the folder's by default.")
]


@app.command()
def build(
    folder: options.Fitted,
    approximate: Approximate = False,
    postgres: Postgres = None,
    name: Name = None,
    as_json: output.AsJson = False,
) -> None:
    """Build an index: exact or approximate in a folder, or in PostgreSQL with pgvector.

    Example: nearkin index build my-study
    """
    from nearkin.indexing import build_in_postgres, build_index
    from nearkin.model_file import load_model

    model = load_model(folder)
    home, kind = place(folder, approximate)
    if postgres is None:
        index = build_index(model, home, kind)
        where = str(home / f"index-{kind}")
    else:
        index = build_in_postgres(model, postgres, name or home.resolve().name)
        where = repr(index)
    if as_json:
        output.show_json({"index": where, "objects": len(index)})
    else:
        print(f"Written: {where}: {index}" if postgres is None else f"Written: {where}")


@app.command()
def check(
    folder: options.Fitted,
    approximate: Approximate = False,
    postgres: Postgres = None,
    name: Name = None,
    k: options.Nearest = 10,
    as_json: output.AsJson = False,
) -> None:
    """Check an index: whole, of the same metric, and how much of the nearest it finds.

    A damaged index, one of another metric or of other objects is an error.

    Example: nearkin index check my-study
    """
    from nearkin.indexing import check_index, open_in_postgres, open_index
    from nearkin.model_file import load_model

    model = load_model(folder)
    home, kind = place(folder, approximate)
    if postgres is None:
        index = open_index(model, home, kind)
    else:
        index = open_in_postgres(model, postgres, name or home.resolve().name)
    found = check_index(model, index, k)
    if found["objects"] != found["collection"]:
        raise ValueError(
            f"the index holds {found['objects']} objects, the model {found['collection']}: "
            "build it again."
        )
    show(found, as_json)


def place(folder: Path, approximate: bool) -> tuple[Path, str]:
    """Return the study's folder and the kind of index."""
    from nearkin.indexing import APPROXIMATE, EXACT

    home = folder if folder.is_dir() else folder.parent
    return home, APPROXIMATE if approximate else EXACT


def show(found: dict[str, Any], as_json: bool) -> None:
    """Print what the check found."""
    if as_json:
        output.show_json(found)
        return
    print(
        f"whole, of this metric, {found['objects']} objects; recall@{found['k']} "
        f"{found['recall']:.4f} (worst query {found['worst']:.2f}) of {found['queries']} queries, "
        f"distances right to {found['distance_error']:.1e}"
    )
