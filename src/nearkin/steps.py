"""Newton steps: the minimum of a quadratic model, over bounds or on the free coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import device

from nearkin.pairs import Array

DAMPING = 1e-11  # relative: collinear columns leave H singular, and any solution will do
MAX_CG = 200


def bounded_step(H: Array, g: Array, room: Array, xp: Any) -> Array:
    """Minimise ``g . s + s . H s / 2`` over ``s >= room`` (room <= 0), by block pivoting.

    Each round solves for the coefficients believed free, then exchanges all that break their
    condition; if that stops helping, one at a time, which always ends (Portugal, Judice and
    Vicente 1994).
    """
    n = g.shape[0]
    eye = xp.eye(n, dtype=xp.float64, device=device(g))
    diagonal = xp.sum(H * eye, axis=0)
    H = H + DAMPING * xp.maximum(diagonal, 1e-3 * xp.max(diagonal)) * eye
    order = xp.arange(n, device=device(g))
    free = (room < 0) | (g < 0)
    fewest, patience = n + 1, 5
    step = xp.zeros_like(g)
    for _ in range(10 * n + 100):
        held = xp.where(free, 0.0, room)
        # rows of held coefficients become s = room, the others H_FF s_F = -g_F - H_FB room_B
        mask = free[:, None] & free[None, :]
        masked = xp.where(mask, H, eye)
        right = xp.where(free, -g - H @ held, room)
        step = xp.linalg.solve(masked, right)
        slope = g + H @ step
        below = free & (step < room)
        wants_in = ~free & (slope < 0)
        wrong = below | wants_in
        n_wrong = int(xp.sum(xp.astype(wrong, xp.int64)))
        if n_wrong == 0:
            break
        if n_wrong < fewest:
            fewest, patience = n_wrong, 5
        else:
            patience -= 1
        last = xp.max(xp.where(wrong, order, -1))
        free = free ^ (wrong if patience > 0 else (order == last))
    return xp.maximum(step, room)


def conjugate_gradients(
    product: Callable[[Array], Array],
    diagonal: Array,
    right: Array,
    free: Array,
    damping: float,
    accuracy: float,
    xp: Any,
) -> Array:
    """Solve (H + damping) s = right on the free coefficients, preconditioned by the diagonal."""
    damping = max(damping, DAMPING * float(xp.max(diagonal)))
    weight = free / (diagonal + damping)
    s, residual = xp.zeros_like(right), right * free
    direction = weight * residual
    rho = start = float(xp.sum(residual * direction))
    for _ in range(MAX_CG):
        if rho <= accuracy**2 * start:
            break
        image = (product(direction) + damping * direction) * free
        curvature = float(xp.sum(direction * image))
        if curvature <= 0:  # rounding: H is positive semidefinite
            break
        s = s + (rho / curvature) * direction
        residual = residual - (rho / curvature) * image
        rho, before = float(xp.sum(residual * weight * residual)), rho
        direction = weight * residual + (rho / before) * direction
    return s
