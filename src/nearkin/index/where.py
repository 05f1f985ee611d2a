"""Which objects a search may return: applied before ranking, exactly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.data import as_text


@dataclass(frozen=True)
class Where:
    """A filter for ``search``; everything that is given must hold.

    Parameters
    ----------
    classes : collection, optional
        Only objects with one of these labels.
    only : mapping of column to collection, optional
        Only objects whose metadata has one of these values.
    exclude_ids : collection, optional
        Not these objects.
    exclude : mapping of column to collection, optional
        Not objects whose metadata has one of these values: ``{"patient": ["p7"]}`` keeps a
        patient's own images out of the answer.

    Examples
    --------
    >>> from nearkin.index import Where
    >>> Where(classes=["cyst"], exclude={"patient": ["p7"]}).allowed(
    ...     ids=["a", "b", "c"], labels=["cyst", "cyst", None],
    ...     meta={"patient": ["p1", "p7", "p1"]},
    ... ).tolist()
    [True, False, False]
    """

    classes: Collection[Any] | None = None
    only: Mapping[str, Collection[Any]] = field(default_factory=dict)
    exclude_ids: Collection[Any] = ()
    exclude: Mapping[str, Collection[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("classes", "exclude_ids"):
            _check_values(name, getattr(self, name))
        for name in ("only", "exclude"):
            for column, values in getattr(self, name).items():
                _check_values(f"{name}[{column!r}]", values)

    def allowed(self, ids: Any, labels: Any, meta: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which objects may be returned  (n,); values are compared as text, as ids are."""
        keep = np.ones(len(ids), dtype=bool)
        if self.classes is not None:
            keep &= _among(labels, self.classes)
        if len(self.exclude_ids):
            keep &= ~_among(ids, self.exclude_ids)
        for columns, wanted in ((self.only, True), (self.exclude, False)):
            for column, values in columns.items():
                if column not in meta:
                    raise ValueError(
                        f"Where: there is no metadata column {column!r}; found {sorted(meta)}."
                    )
                keep &= _among(meta[column], values) == wanted
        return keep


def _among(column: Any, values: Collection[Any]) -> NDArray[np.bool_]:
    wanted = {as_text(value) for value in values} - {None}
    if hasattr(column, "among"):  # a column that knows its different values
        mask: NDArray[np.bool_] = column.among(wanted)
        return mask
    return np.array([as_text(value) in wanted for value in column], dtype=bool)


def _check_values(name: str, values: Any) -> None:
    if isinstance(values, str) or not (values is None or hasattr(values, "__len__")):
        raise TypeError(f"Where({name}={values!r}): pass a list of values.")
