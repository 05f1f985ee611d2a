"""Why are these two near? The exact addends of one squared distance, in the features' own units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.data import first_rows
from nearkin.explanation import Explanation, Part
from nearkin.metric import Metric
from nearkin.points import Contributions, Points

Floats = NDArray[np.float64]
CLASSES = "class"


@dataclass(frozen=True)
class Usual:
    """Addends of the mean pair of a collection: ``features`` (K,), and all others together."""

    features: Floats
    classes: float

    @classmethod
    def of(cls, metric: Metric, points: Points) -> Usual:
        """Return the means over all pairs of different objects, in closed form.

        ``mean over i != j of (x_ik - x_jk)^2 = 2 var_k n / (n - 1)``, and likewise for the bilinear
        class terms from sums over objects, less each object with itself.
        """
        n = len(points)
        if n < 2:
            raise ValueError(f"Usual: {n} object(s) make no pair.")
        every = metric.weights * 2.0 * points.x.var(axis=0, dtype=np.float64) * n / (n - 1)
        features, unmeasured = every[: metric.n_given], float(every[metric.n_given :].sum())
        if metric.class_costs is None or points.u is None:
            return cls(features, 0.0)
        Q, u, b = metric.class_costs, points.u, points.profiles()
        U, B = u.sum(axis=0), b.sum(axis=0)
        itself = np.sum((u @ Q) * u) + 2.0 * np.sum(u * b)
        total = U @ Q @ U + 2.0 * U @ B
        return cls(features, unmeasured + float(total - itself) / (n * (n - 1)))


def explain(
    metric: Metric,
    query: Points,
    item: Points,
    *,
    collection: Points | None = None,
    values: tuple[ArrayLike, ArrayLike] | None = None,
    names: tuple[str, str] = ("query", "item"),
    labels: tuple[Any, Any] = (None, None),
    families: Mapping[str, str] | None = None,
    usual: Usual | None = None,
) -> Explanation:
    """Explain the distance between two objects.

    Parameters
    ----------
    metric : Metric
    query, item : Points
        One object each, such as ``metric.points(x)`` and ``est.points_[7]``.
    collection : Points, optional
        Whose mean pair to compare with, such as ``est.points_``.
    values : pair of array-like, shape (K,), optional
        The features of both in original units, if the metric learned from scaled ones.
    names : pair of str
        What to call the two.
    labels : pair, optional
        Their class labels, to be shown.
    families : mapping of feature name to family, optional
        Features of a family are summed in ``groups``.
    usual : Usual, optional
        ``Usual.of(metric, collection)``, if it is at hand.

    Examples
    --------
    >>> import nearkin as nk
    >>> metric = nk.Metric([1.0, 4.0], feature_names=("size", "tint"))
    >>> p = metric.points([[4.0, 0.0], [12.0, 0.0], [5.0, 3.0]])
    >>> found = nk.explain(metric, p[0], p[1], collection=p)
    >>> found.squared_distance, [(part.name, part.addend) for part in found.apart]
    (64.0, [('size', 64.0)])
    """
    for name, point in (("query", query), ("item", item)):
        if not isinstance(point, Points) or len(point) != 1:
            size = len(point) if isinstance(point, Points) else type(point).__name__
            raise ValueError(f"explain({name}=...): pass the Points of one object, not {size}.")
    if usual is None and collection is not None:
        usual = Usual.of(metric, collection)
    K = metric.n_given
    own = (query.x[0, :K], item.x[0, :K]) if values is None else values
    raw = tuple(np.asarray(value, dtype=np.float64) for value in own)
    if any(value.shape != (K,) for value in raw):
        raise ValueError(
            f"explain(values=...): the metric has {K} features; found shapes "
            f"{raw[0].shape} and {raw[1].shape}."
        )
    found = metric.contributions(query, item)
    parts = _feature_parts(found, raw, usual, families or {})
    parts += _class_parts(metric, query, item, float(found.features[0, K:].sum()))
    total = math.fsum(part.addend for part in parts)
    if total < 0:  # profiles of two rated objects may add up below 0; a distance does not
        parts.append(Part("cut off at 0", "floor", CLASSES, -total, None))
        total = 0.0
    mean = None if usual is None else float(usual.features.sum()) + usual.classes
    shared = tuple(replace(part, share=part.addend / total if total else None) for part in parts)
    groups = _grouped(shared, usual)
    return Explanation(*names, labels, total, mean, shared, groups)


def _feature_parts(
    found: Contributions,
    raw: tuple[Floats, ...],
    usual: Usual | None,
    families: Mapping[str, str],
) -> list[Part]:
    K = len(raw[0])
    known = found.feature_names[:K]
    unknown = [name not in known for name in families]
    if any(unknown):
        wrong = [name for name in families if name not in known]
        raise ValueError(
            f"explain(families=...): no feature is named {wrong[0]!r} (entries "
            f"{first_rows(unknown)}); the metric has {list(known)[:20]}."
        )
    means = [None] * K if usual is None else usual.features.tolist()
    return [
        Part(name, "feature", families.get(name, name), addend, None, q, p, mean)
        for name, addend, q, p, mean in zip(
            known,
            found.features[0, :K].tolist(),
            raw[0].tolist(),
            raw[1].tolist(),
            means,
            strict=True,
        )
    ]


def _class_parts(metric: Metric, query: Points, item: Points, unmeasured: float) -> list[Part]:
    """Return one part for each pair of classes in either order, and what ratings said."""
    if metric.class_costs is None or metric.classes is None or query.u is None or item.u is None:
        return []
    # sum_cd u_c Q_cd u'_d, the two orders of a pair of classes together: d2 is symmetric
    term = query.u[0][:, None] * metric.class_costs * item.u[0]
    names = [str(name) for name in metric.classes.tolist()]
    parts = []
    for c in range(len(names)):
        for d in range(c, len(names)):
            addend = float(term[c, c] if c == d else term[c, d] + term[d, c])
            if addend != 0:
                name = f"class {names[c]} - {names[d]}"
                parts.append(Part(name, "class pair", CLASSES, addend, None))
    # what nobody measured: known of the rated, predicted of the others
    if unmeasured != 0:
        parts.append(Part("unmeasured features", "ratings", CLASSES, unmeasured, None))
    # what ratings said of each object itself: u . b' and b . u'
    sides = (("item", query.u[0], item), ("query", item.u[0], query))
    for side, u, other in sides:
        if other.b is not None:
            addend = float(u @ other.b[0])
            parts.append(Part(f"ratings of the {side}", "ratings", CLASSES, addend, None))
    return parts


def _grouped(parts: tuple[Part, ...], usual: Usual | None) -> tuple[Part, ...]:
    """Return parts summed by family, the largest first."""
    families: dict[tuple[bool, str], list[Part]] = {}
    for part in parts:  # a feature may be called "class", too
        families.setdefault((part.kind == "feature", part.family), []).append(part)
    groups = []
    for (is_feature, family), members in families.items():
        if is_feature and len(members) == 1 and members[0].name == family:
            groups.append(members[0])
            continue
        addend = math.fsum(part.addend for part in members)
        shares = [part.share for part in members]
        share = None if None in shares else math.fsum(s for s in shares if s is not None)
        mean: float | None = None
        if usual is not None:
            mean = usual.classes
            if is_feature:
                mean = math.fsum(part.usual for part in members if part.usual is not None)
        kind = "family" if is_feature else CLASSES
        groups.append(Part(family, kind, family, addend, share, usual=mean))
    return tuple(sorted(groups, key=lambda group: -group.addend))
