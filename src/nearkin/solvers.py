"""Projected Newton on z >= lower, with a Hessian or without one, and one kind of result.

Each Newton step minimises the quadratic model over the bounds exactly (``bounded_step``), so the
set of coefficients at zero settles within a few passes over the pairs, and the step is always a
descent direction. The solver knows an objective only through its protocol
(``objectives.Objective``) and stops on the objective's own ``shortfall``: CO's certified gap, a
scale-free KKT residual otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize
from sklearn.exceptions import ConvergenceWarning

from nearkin.data import check_number
from nearkin.objectives import Evaluation, Objective
from nearkin.pairs import Array
from nearkin.steps import bounded_step, conjugate_gradients

MAX_NEWTON = 512  # coefficients: beyond, a Hessian costs more than products with it
ENOUGH_PAIRS = 5000  # in the sample that gives a starting point
ROUGH = 1e-3  # its tolerance
ARMIJO = 1e-4
SMALLEST = 1e-6  # part of a step
RUNAWAY = 1e-3  # a relative Newton step this long at a vanished gradient leads to infinity


@dataclass(frozen=True)
class Solution:
    """How a fit ended, and how far from the optimum at most.

    Attributes
    ----------
    theta : ndarray
        Coefficients of the pair features: r, then the upper triangle of Q.
    value : float
        Objective at theta: CO's sum of squared distances of similar pairs (with the distances
        of dissimilar pairs summing to 1), otherwise a mean negative log-likelihood.
    gap : float or None
        Proven bound on the relative distance from the optimum; None where the method has no
        such proof (then read ``residual``).
    residual : float or None
        Scale-free residual of the optimality conditions. For a problem that is not convex
        (NCA) it shows a stationary point, no more.
    n_iter : int
        Iterations.
    converged : bool
        Whether gap or residual met the tolerance.
    message : str
        How it ended, and what to do if it did not converge.
    """

    theta: NDArray[np.float64]
    value: float
    gap: float | None
    residual: float | None
    n_iter: int
    converged: bool
    message: str


class Progress(NamedTuple):
    """Where a solver stands: the point, the objective there, and how it came to stop."""

    z: Array
    at: Evaluation
    shortfall: float
    n_iter: int
    converged: bool
    message: str


def minimise(objective: Objective, tol: float = 1e-8, max_iter: int = 200) -> Progress:
    """Minimise a convex objective over z >= lower.

    Up to ``MAX_NEWTON`` coefficients by Newton steps solved over the bounds; beyond, by Newton
    steps from conjugate gradients, which never form a Hessian. With many pairs, a sample of them
    gives the starting point; what stops the solver is always the shortfall on all of them.
    """
    z = objective.start
    solve = projected_newton if z.shape[0] <= MAX_NEWTON else newton_cg
    stride = objective.n_pairs // (ENOUGH_PAIRS + 20 * z.shape[0])
    if stride > 2:
        near = solve(objective.thinned(stride), z, ROUGH, max_iter)
        if near.converged:
            z = 0.99 * near.z + 0.01 * z  # off the bounds, where a distance could be 0
    return solve(objective, z, tol, max_iter)


def projected_newton(objective: Objective, z: Array, tol: float, max_iter: int) -> Progress:
    """Newton's method, each step the minimum of the quadratic model over z >= lower."""
    xp = array_namespace(z)

    def step_from(z: Array, at: Evaluation, shortfall: float, size: float) -> Array:
        return bounded_step(at.hessian, at.gradient, objective.lower - z, xp)

    return _descend(objective, z, step_from, tol, max_iter, hessian=True)


def newton_cg(objective: Objective, z: Array, tol: float, max_iter: int) -> Progress:
    """Newton's method without a Hessian, on the coefficients that are free to move.

    Damped as Levenberg and Marquardt do: where the pairs say nothing about a direction, its
    Newton step has no end. The damping falls while whole steps succeed.
    """
    xp = array_namespace(z)
    damping = -1.0

    def step_from(z: Array, at: Evaluation, shortfall: float, size: float) -> Array:
        nonlocal damping
        inside = xp.where(xp.isinf(objective.lower), 0.0, z - objective.lower)
        held = (z <= objective.lower + 1e-9 * xp.max(inside)) & (at.gradient > 0)
        free = xp.astype(~held, xp.float64)
        if damping < 0:  # so that no step is longer than the largest coefficient
            damping = float(xp.max(xp.abs(at.gradient) * free) / xp.max(inside))
        else:
            damping *= 0.1 if size == 1.0 else min(4.0 / max(size, 0.04), 100.0)
        product, diagonal = objective.curvature(z)
        accuracy = min(0.1, max(shortfall, 1e-12) ** 0.5)
        s = conjugate_gradients(product, diagonal, -at.gradient, free, damping, accuracy, xp)
        return xp.where(held, objective.lower - z, s)

    return _descend(objective, z, step_from, tol, max_iter, hessian=False, patience=12)


def _descend(
    objective: Objective,
    z: Array,
    step_from: Callable[[Array, Evaluation, float, float], Array],
    tol: float,
    max_iter: int,
    *,
    hessian: bool,
    patience: int = 0,
) -> Progress:
    """Take steps with a line search until the objective's shortfall is small enough.

    ``step_from`` is told what part of its last step was taken; after ``patience`` steps of which
    no part could be taken, the search ends.
    """
    xp = array_namespace(z)
    at = objective.evaluate(z, hessian=hessian)
    size, failures = 1.0, 0
    for n_iter in range(max_iter + 1):
        shortfall = objective.shortfall(z, at)
        trouble = objective.trouble(at)
        if trouble:
            return Progress(z, at, shortfall, n_iter, False, trouble)
        if shortfall <= tol and objective.certified:
            return _progress(objective, z, at, n_iter, tol, "")
        step = step_from(z, at, shortfall, size)
        if shortfall <= tol:
            runaway = _runaway(z, step, objective, xp)
            if not runaway:
                return _progress(objective, z, at, n_iter, tol, "")
            if shortfall <= tol * 1e-4:
                return Progress(z, at, shortfall, n_iter, False, _unbounded(runaway))
        if n_iter == max_iter:
            return _progress(objective, z, at, n_iter, tol, f"stopped at {max_iter=}; raise it")
        size, new_z, new_at = _search(objective, z, at, step, shortfall, hessian=hessian)
        if size > 0:
            z, at, failures = new_z, new_at, 0
        elif (failures := failures + 1) > patience:
            break
    why = "no step lowers the objective any more: it is flat to rounding"
    return _progress(objective, z, at, n_iter, tol, why)


def _search(
    objective: Objective, z: Array, at: Evaluation, step: Array, shortfall: float, *, hessian: bool
) -> tuple[float, Array, Evaluation]:
    """Halve the step until it lowers the objective enough; size 0 when nothing does.

    Where the gain is lost in rounding, a step counts that brings the shortfall down.
    """
    xp = array_namespace(z)
    rounding = 4e-16 * max(abs(at.value), 1.0)
    size = 1.0
    while size > SMALLEST:
        trial = xp.maximum(z + size * step, objective.lower)
        new = objective.evaluate(trial, hessian=hessian)
        slope = float(xp.sum(at.gradient * (trial - z)))
        if slope < 0 and new.value <= at.value + ARMIJO * slope:
            return size, trial, new
        if abs(slope) <= rounding / ARMIJO and new.value <= at.value + rounding:
            if objective.shortfall(trial, new) < 0.5 * shortfall:
                return size, trial, new
            break
        size *= 0.5
    return 0.0, z, at


def _progress(
    objective: Objective, z: Array, at: Evaluation, n_iter: int, tol: float, why: str
) -> Progress:
    shortfall = objective.shortfall(z, at)
    converged = shortfall <= tol
    measure = "gap" if objective.certified else "residual"
    state = f"{measure} {shortfall:.1e}, tolerance {tol:.1e}"
    message = f"converged ({state})" if converged else f"{why} ({state})"
    return Progress(z, at, shortfall, n_iter, converged, message)


def _runaway(z: Array, step: Array, objective: Objective, xp: Any) -> list[str]:
    """Name the coefficients that a Newton step still moves far where the gradient is gone."""
    size = xp.abs(z)
    moving = (xp.abs(step) > RUNAWAY * size) & (xp.abs(step) > RUNAWAY * xp.max(size))
    return [objective.name(int(k)) for k in xp.nonzero(moving)[0]]


def _unbounded(names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
    return (
        f"the ratings are separable along {shown}: the likelihood grows for ever with "
        "these coefficients, and they were stopped where the gain vanished; raise ridge= (for "
        "class pairs, Hybrid's class_ridge=)"
    )


def lbfgsb(
    value_and_gradient: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    start: NDArray[np.float64],
    lower: NDArray[np.float64],
    tol: float,
    max_iter: int,
) -> Any:
    """Run SciPy's L-BFGS-B until the projected gradient, and nothing else, is within tol."""
    return minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower, np.full_like(lower, np.inf)),
        options={"maxiter": max_iter, "maxcor": 20, "ftol": 0.0, "gtol": tol, "maxfun": 10**6},
    )


def to_numpy(array: Array) -> NDArray[np.float64]:
    """Return an array of any library, wherever it lives, as NumPy float64."""
    if hasattr(array, "get"):  # CuPy does not convert by itself
        array = array.get()
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array, dtype=np.float64)


def check_solver(caller: str, tol: Any, max_iter: Any) -> None:
    """Raise an error unless tolerance and iterations can be used."""
    check_number(caller, "tol", tol)
    check_number(caller, "max_iter", max_iter, 1, whole=True)


def warn_unless(converged: bool, name: str, message: str) -> None:
    """Warn, whoever asked and however quietly, that a fit did not converge."""
    if not converged:
        warnings.warn(f"{name} did not converge: {message}.", ConvergenceWarning, stacklevel=4)
