"""``nearkin search`` and ``nearkin explain``: ask a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options, output


def search(
    folder: options.Fitted,
    like: Annotated[
        list[str] | None, typer.Option(help="Id of an object to search by; repeatable.")
    ] = None,
    features: options.NewObjects = None,
    k: options.Nearest = 10,
    class_: Annotated[
        list[str] | None, typer.Option("--class", help="Only this class; repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only objects with column=value; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="No objects with column=value; repeatable.")
    ] = None,
    exclude_group: Annotated[
        list[str] | None,
        typer.Option(help="No objects with the query's value in this column, such as patient."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the neighbours to a .csv or .parquet file, too.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Find the objects nearest to one of the collection, or to new ones.

    An object is not its own neighbour.

    Example: nearkin search my-study --like o3 -k 5 --exclude-group patient
    """
    from nearkin.index.where import Where
    from nearkin.model_file import load_model
    from nearkin.writing import write_rows

    model = load_model(folder)
    queries = asked(model, like, features)
    condition = Where(
        classes=class_ or None,
        only=options.grouped(where, "--where"),
        exclude=options.grouped(exclude, "--exclude"),
    )
    found = [
        model.search(query, k, where=condition, exclude_groups=exclude_group or ())
        for query in queries
    ]
    if out is not None:
        write_rows(out, [row for answer in found for row in answer.as_rows()])
    if as_json:
        output.show_json([answer.to_dict() for answer in found])
        return
    print("\n\n".join(str(answer) for answer in found))
    if out is not None:
        output.note(f"Written: {out}")


def asked(model: Any, like: list[str] | None, features: Path | None) -> list[Any]:
    """Return the queries that were asked for."""
    if not like and features is None:
        raise typer.BadParameter("name an object with --like ID, or new ones with --features FILE")
    queries = [model.object(key) for key in like or ()]
    if features is not None:
        queries += model.read_new(features)
    return queries


def explain(
    folder: options.Fitted,
    a: Annotated[str, typer.Argument(help="Id of an object.")],
    b: Annotated[str, typer.Argument(help="Id of another one.")],
    features: options.NewObjects = None,
    family: Annotated[
        list[str] | None, typer.Option(help="feature=family: sum a family's parts; repeatable.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw a .png, .svg or .pdf.")] = None,
    as_json: output.AsJson = False,
) -> None:
    """Explain the distance between two objects: its exact parts, in original units.

    A is an object of the collection, or with --features one of the new ones by its id.

    Example: nearkin explain my-study o3 o5 --figure why.png
    """
    from nearkin.model_file import load_model

    model = load_model(folder)
    new = {} if features is None else {query.name: query for query in model.read_new(features)}
    families = dict(options.split(text, "--family") for text in family or ())
    found = model.explain(new.get(a, a), b, families=families)
    files = []
    if html is not None:
        found.to_html(html)
        files.append(str(html))
    if figure is not None:
        found.save_figure(figure)
        files.append(str(figure))
    if as_json:
        output.show_json({**found.to_dict(), "files": files})
        return
    print(found)
    if files:
        output.note("Written: " + ", ".join(files))
