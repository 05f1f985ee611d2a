"""An experiment in parts: each part's rows are a file, written whole as soon as it is done.

A run that was interrupted goes on where it stopped. Beside the parts lies ``settings.json``; other
settings need another folder.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import joblib

from nearkin.bundle import replaced

Row = tuple[Any, ...]


def run_parts(
    folder: Path,
    settings: dict[str, Any],
    columns: Sequence[str],
    prepare: Callable[[int], Callable[[], list[Row]]],
    n_parts: int,
    n_jobs: int = -1,
) -> Iterator[int]:
    """Do the parts that are not done yet, yielding how many are.

    ``prepare(part)`` is called here, when the part is due; what it returns is called in another
    process, and returns rows in the form of ``columns``, the number of the part first. The files
    go to ``folder``, the settings beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder.parent, settings)
    todo = [part for part in range(n_parts) if not part_file(folder, part).exists()]
    done = n_parts - len(todo)
    yield done
    workers = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for rows in workers(joblib.delayed(prepare(part))() for part in todo):
        with replaced(part_file(folder, rows[0][0])) as file:
            csv.writer(file).writerows([columns, *rows])
        done += 1
        yield done


def run_models(
    folder: Path,
    settings: Any,
    columns: Sequence[str],
    score: Callable[[Any, int], list[Row]],
    n_jobs: int = -1,
) -> Iterator[int]:
    """Score the models of a study that are not scored yet; ``settings`` has ``n_models``."""
    constants = asdict(settings)
    constants.pop("n_models")  # more models may be added to a finished study

    def prepare(model: int) -> Callable[[], list[Row]]:
        return partial(score, settings, model)

    return run_parts(folder / "models", constants, columns, prepare, settings.n_models, n_jobs)


def part_file(folder: Path, part: int) -> Path:
    """Return where the rows of a part are kept."""
    return folder / f"{part:04d}.csv"


def check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Note the settings of a new study; raise an error if the folder holds one with others."""
    path = folder / "settings.json"
    wanted = json.loads(json.dumps(settings))
    if path.exists() and json.loads(path.read_text()) != wanted:
        raise ValueError(
            f"{folder} holds a study with other settings ({path}); name another folder with --out."
        )
    with replaced(path) as file:
        json.dump(wanted, file, indent=2)
