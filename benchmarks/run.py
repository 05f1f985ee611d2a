"""Time nearkin against its peers on the same data, in one run: ``make bench``.

Times are the best of several; what counts is the ratio, on whatever machine this is.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings

import cvxpy as cp
import machine
import metric_learn
import mord
import numpy as np
import skordinal.classifiers
from sklearn.datasets import load_digits
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import nearkin as nk
from nearkin import passes
from nearkin.convex_program import RootLink
from nearkin.kernel import LeaveOneOut
from nearkin.pairs import PairFeatures

warnings.simplefilter("ignore")
ROWS = []


def best(function, repeats=3):
    """Return the shortest of several times, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def row(what, peer, ours, theirs, target, note=""):
    ratio = theirs / ours
    ROWS.append((what, peer, f"{ours:.3f} s", f"{theirs:.3f} s", f"{ratio:.1f}", target, note))
    print(f"{what:<34} {peer:<28} {ours:8.3f} s {theirs:9.3f} s  x{ratio:.1f}", file=sys.stderr)


def rated_pairs(n, K, N, seed=0):
    """Objects, index pairs and levels cut at 20 % and 50 % of a noisy weighted distance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, K))
    a = rng.integers(0, n, N)
    b = (a + 1 + rng.integers(0, n - 1, N)) % n
    d2 = np.empty(N)
    r = rng.exponential(size=K) * (rng.random(K) < 0.5)
    for s in range(0, N, 10_000):
        at = slice(s, s + 10_000)
        d2[at] = ((X[a[at]] - X[b[at]]) ** 2) @ r
    d2 += rng.normal(size=N) * d2.std() * 0.5
    similar, neutral = np.quantile(d2, [0.2, 0.5])
    level = np.where(d2 < similar, 3, np.where(d2 < neutral, 2, 1))
    return X, a, b, level


def rescaled_cost(w, X, a, b, level):
    """CO's objective of weights w, once the distances of dissimilar pairs sum to 1."""
    d2 = ((X[a] - X[b]) ** 2) @ w
    return d2[level == 3].sum() / np.sqrt(d2[level == 1]).sum() ** 2


def convex_against_metric_learn():
    X, a, b, level = rated_pairs(5_000, 60, 100_000)
    ratings = nk.Ratings(a, b, level)
    ours, est = best(lambda: nk.ConvexOptimization(prior=0).fit(X, ratings=ratings))
    used = level != 2
    pairs, y = np.column_stack([a, b])[used], np.where(level[used] == 3, 1, -1)
    mmc = metric_learn.MMC(diagonal=True, preprocessor=X)
    theirs, _ = best(lambda: mmc.fit(pairs, y))
    w = np.diag(mmc.get_mahalanobis_matrix())
    cost = rescaled_cost(w, X, a, b, level)
    note = f"objective {est.solution_.value:.6e} against {cost:.6e}; gap {est.solution_.gap:.0e}"
    row("CO, 100,000 pairs x 60", "metric-learn MMC(diagonal)", ours, theirs, ">= 20", note)


def convex_against_cvxpy():
    for N, target in ((2_000, ">= 20"), (20_000, ">= 50")):
        X, a, b, level = rated_pairs(1_000, 60, N)
        ratings = nk.Ratings(a, b, level)
        ours, est = best(lambda r=ratings, X=X: nk.ConvexOptimization(prior=0).fit(X, ratings=r), 5)
        phi = (X[a] - X[b]) ** 2
        theta = cp.Variable(60, nonneg=True)
        distance = cp.sum(cp.sqrt(phi[level == 1] @ theta))
        problem = cp.Problem(cp.Minimize(phi[level == 3].sum(0) @ theta), [distance >= 1])
        theirs, _ = best(lambda p=problem: p.solve(solver=cp.CLARABEL), 1)
        cost = rescaled_cost(np.maximum(theta.value, 0), X, a, b, level)
        note = f"objective {est.solution_.value:.9e} against {cost:.9e}"
        row(f"CO, {N:,} pairs x 60", "CVXPY with Clarabel", ours, theirs, target, note)


def ordinal_against_mord_and_skordinal():
    X, a, b, level = rated_pairs(5_000, 60, 100_000)
    ratings = nk.Ratings(a, b, level)
    ours, _ = best(lambda: nk.OrdinalRegression().fit(X, ratings=ratings), 5)
    phi = (X[a] - X[b]) ** 2
    for peer, make in (
        ("mord LogisticAT", lambda: mord.LogisticAT(alpha=0.0)),
        ("skordinal POM", skordinal.classifiers.POM),
    ):
        theirs, _ = best(lambda make=make, phi=phi: make().fit(phi, level), 2)
        row("OR, 100,000 pairs x 60", peer, ours, theirs, ">= 5", "peers get phi ready-made")


def nca_against_scikit_learn():
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    many = np.vstack([X + rng.normal(size=X.shape) for _ in range(4)])
    labels = np.tile(y, 4)
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_ = 0
    mask = labels[:, None] == labels
    flat = np.eye(64).ravel() * 0.1
    likelihood = LeaveOneOut(many, labels)
    calls = {
        "ours": lambda: likelihood.value_and_gradient(np.full(64, 0.01)),
        "theirs": lambda: nca._loss_grad_lbfgs(flat.copy(), many, mask, -1.0),
    }
    seconds = {name: best(call, 3)[0] for name, call in calls.items()}
    peaks = {}
    for name, call in calls.items():
        tracemalloc.start()
        call()
        peaks[name] = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    note = f"memory {peaks['ours']:.0f} MiB against {peaks['theirs']:.0f} MiB (target <= 1/4)"
    row(
        f"NCA gradient, n = {len(many):,}, K = 64",
        "scikit-learn NCA",
        *seconds.values(),
        ">= 5",
        note,
    )
    theirs, _ = best(lambda: NeighborhoodComponentsAnalysis(random_state=0).fit(X, y), 1)
    for what, penalty in (("NCA fit, digits", 1.0), ("NCA fit with choice of lambda", None)):
        ours, est = best(lambda p=penalty: nk.NCA(penalty=p, random_state=0).fit(X, y), 2)
        target = ">= 5" if penalty else "-"
        row(what, "scikit-learn NCA", ours, theirs, target, f"lambda {est.penalty_:g}")


def a_million_pairs():
    X, a, b, level = rated_pairs(5_000, 64, 1_000_000)
    ratings = nk.Ratings(a, b, level)
    features = PairFeatures(X)
    pairs = features.pairs(ratings)
    link, theta = RootLink(features.xp), np.ones(64)
    ours, _ = best(lambda: passes.accumulate(features, pairs, link, theta, hessian=True), 5)
    phi = np.random.default_rng(0).random((4096, 64))  # in cache, as our blocks are
    theirs, _ = best(lambda: [phi.T @ phi for _ in range(244)], 5)
    row("one Newton pass, 1,000,000 x 64", "bare phi.T @ phi", ours, theirs, ">= 1/3")
    count = [0]
    plain = passes.sum_over_blocks

    def counted(*args, **kwargs):
        count[0] += args[1].a.shape[0] / 1_000_000
        return plain(*args, **kwargs)

    passes.sum_over_blocks = counted
    ours, est = best(lambda: nk.ConvexOptimization(prior=0).fit(X, ratings=ratings), 1)
    passes.sum_over_blocks = plain
    tracemalloc.start()
    nk.ConvexOptimization(prior=0).fit(X, ratings=ratings)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    note = (
        f"whole CO fit: {ours:.2f} s, {est.solution_.n_iter} Newton steps, work of {count[0]:.1f} "
        f"passes over all pairs (target < 15), peak {peak:.0f} MiB above the data (target < 300)"
    )
    ROWS[-1] = (*ROWS[-1][:-1], note)


def main():
    convex_against_metric_learn()
    convex_against_cvxpy()
    ordinal_against_mord_and_skordinal()
    nca_against_scikit_learn()
    a_million_pairs()
    packages = ("numpy", "scikit-learn", "metric-learn", "mord", "skordinal", "cvxpy", "clarabel")
    print(f"`make bench`, {machine.describe(*packages)}\n")
    print("| work | peer | nearkin | peer | ratio | target | remarks |")
    print("|---|---|---|---|---|---|---|")
    for cells in ROWS:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
