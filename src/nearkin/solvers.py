"""Projected Newton on z >= lower, a limited-memory path for many coefficients, one result.

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
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize
from sklearn.exceptions import ConvergenceWarning

from nearkin.objectives import Evaluation, Objective
from nearkin.pairs import Array
from nearkin.steps import bounded_step, conjugate_gradients

MAX_NEWTON = 512  # coefficients: beyond, a Hessian costs more than products with it
ROUGH = 1e-3  # where L-BFGS hands over to Newton
ARMIJO = 1e-4
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

    Up to ``MAX_NEWTON`` coefficients by Newton steps solved over the bounds. Beyond, L-BFGS-B
    finds roughly where the solution lies and Newton with conjugate gradients finishes.
    """
    z = objective.start
    if z.shape[0] <= MAX_NEWTON:
        return projected_newton(objective, z, tol, max_iter)
    near = limited_memory(objective, z, max(tol, ROUGH), max_iter)
    end = newton_cg(objective, near.z, tol, max_iter)
    return end._replace(n_iter=near.n_iter + end.n_iter)


def projected_newton(objective: Objective, z: Array, tol: float, max_iter: int) -> Progress:
    """Newton's method, each step the minimum of the quadratic model over z >= lower."""
    xp = array_namespace(z)

    def step_from(z: Array, at: Evaluation, shortfall: float) -> Array:
        return bounded_step(at.hessian, at.gradient, objective.lower - z, xp)

    return _descend(objective, z, step_from, tol, max_iter, hessian=True)


def newton_cg(objective: Objective, z: Array, tol: float, max_iter: int) -> Progress:
    """Newton's method without a Hessian, on the coefficients that are free to move."""
    xp = array_namespace(z)

    def step_from(z: Array, at: Evaluation, shortfall: float) -> Array:
        near = 1e-9 * xp.max(z - xp.maximum(objective.lower, xp.minimum(z, 0.0 * z)))
        held = (z <= objective.lower + near) & (at.gradient > 0)
        product, diagonal = objective.curvature(z)
        free = xp.astype(~held, xp.float64)
        accuracy = min(0.1, max(shortfall, 1e-12) ** 0.5)
        s = conjugate_gradients(product, diagonal, -at.gradient, free, accuracy, xp)
        return xp.where(held, objective.lower - z, s)

    return _descend(objective, z, step_from, tol, max_iter, hessian=False)


def _descend(
    objective: Objective,
    z: Array,
    step_from: Callable[[Array, Evaluation, float], Array],
    tol: float,
    max_iter: int,
    *,
    hessian: bool,
) -> Progress:
    """Take steps with a line search until the objective's shortfall is small enough."""
    xp = array_namespace(z)
    at = objective.evaluate(z, hessian=hessian)
    for n_iter in range(max_iter + 1):
        shortfall = objective.shortfall(z, at)
        trouble = objective.trouble(at)
        if trouble:
            return Progress(z, at, shortfall, n_iter, False, trouble)
        if shortfall <= tol and objective.certified:
            return _progress(objective, z, at, n_iter, tol, "")
        step = step_from(z, at, shortfall)
        if shortfall <= tol:
            runaway = _runaway(z, step, objective, xp)
            if not runaway:
                return _progress(objective, z, at, n_iter, tol, "")
            if shortfall <= tol * 1e-4:
                return Progress(z, at, shortfall, n_iter, False, _unbounded(runaway))
        if n_iter == max_iter:
            break
        found = _search(objective, z, at, step, shortfall, hessian=hessian)
        if found is None:
            break
        z, at = found
    why = "no step lowers the objective any more: it is flat to rounding"
    if n_iter == max_iter:
        why = f"stopped at max_iter={max_iter}; raise it"
    return _progress(objective, z, at, n_iter, tol, why)


def _search(
    objective: Objective, z: Array, at: Evaluation, step: Array, shortfall: float, *, hessian: bool
) -> tuple[Array, Evaluation] | None:
    """Halve the step until it lowers the objective enough; None when nothing does.

    Where the gain is lost in rounding, a step counts that brings the shortfall down.
    """
    xp = array_namespace(z)
    rounding = 4e-16 * max(abs(at.value), 1.0)
    size = 1.0
    while size > 1e-10:
        trial = xp.maximum(z + size * step, objective.lower)
        new = objective.evaluate(trial, hessian=hessian)
        slope = float(xp.sum(at.gradient * (trial - z)))
        if slope < 0 and new.value <= at.value + ARMIJO * slope:
            return trial, new
        if abs(slope) <= rounding / ARMIJO and new.value <= at.value + rounding:
            return (trial, new) if objective.shortfall(trial, new) < 0.5 * shortfall else None
        size *= 0.5
    return None


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
        "these coefficients, and they were stopped where the gain vanished; set ridge= to a "
        "positive number"
    )


def limited_memory(objective: Objective, z: Array, tol: float, max_iter: int) -> Progress:
    """L-BFGS-B, stopped by the objective's own shortfall."""
    xp = array_namespace(z)
    latest: list[tuple[Array, Evaluation]] = []

    def value_and_gradient(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        here = xp.asarray(point, device=device(z))
        latest[:] = [(here, objective.evaluate(here))]
        return latest[0][1].value, to_numpy(latest[0][1].gradient)

    def good_enough() -> bool:
        return objective.shortfall(*latest[0]) <= tol

    lower = to_numpy(objective.lower)
    result = lbfgsb(value_and_gradient, to_numpy(z), lower, tol, max_iter, good_enough)
    z = xp.asarray(result.x, device=device(z))
    return _progress(objective, z, objective.evaluate(z), int(result.nit), tol, result.message)


def lbfgsb(
    value_and_gradient: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    start: NDArray[np.float64],
    lower: NDArray[np.float64],
    tol: float,
    max_iter: int,
    good_enough: Callable[[], bool] = lambda: False,
) -> Any:
    """Run SciPy's L-BFGS-B until the projected gradient, and nothing else, is within tol."""

    def check(_: NDArray[np.float64]) -> None:
        if good_enough():
            raise StopIteration

    return minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower, np.full_like(lower, np.inf)),
        callback=check,
        options={"maxiter": max_iter, "maxcor": 20, "ftol": 0.0, "gtol": tol, "maxfun": 10**6},
    )


def to_numpy(array: Array) -> NDArray[np.float64]:
    """Return an array of any library, wherever it lives, as NumPy float64."""
    if hasattr(array, "get"):  # CuPy does not convert by itself
        array = array.get()
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array, dtype=np.float64)


def warn_unless(converged: bool, name: str, message: str) -> None:
    """Warn, whoever asked and however quietly, that a fit did not converge."""
    if not converged:
        warnings.warn(f"{name} did not converge: {message}.", ConvergenceWarning, stacklevel=4)
