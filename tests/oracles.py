"""The paper's formulas as literal loops: slow, obvious, and independent of the package."""

import math

import numpy as np


def phi(x, y, u=None, v=None):
    out = [(x[k] - y[k]) ** 2 for k in range(len(x))]
    if u is not None:
        for c in range(len(u)):
            for d in range(c, len(u)):
                out.append(u[c] * v[c] if c == d else u[c] * v[d] + u[d] * v[c])
    return np.array(out)


def d2(x, y, r, u=None, v=None, Q=None):
    total = 0.0
    for k in range(len(x)):
        total += r[k] * (x[k] - y[k]) ** 2
    if Q is not None:
        for c in range(len(u)):
            for d in range(len(v)):
                total += u[c] * Q[c][d] * v[d]
    return total


def ordinal_log_likelihood(X, a, b, level, r, thresholds, U=None, Q=None):
    """Sum of log P(sigma | x, x'), P(sigma <= v) = 1 / (1 + exp(-d2 - theta_v))."""
    total = 0.0
    for i, j, v in zip(a, b, level, strict=True):
        d = d2(X[i], X[j], r, None if U is None else U[i], None if U is None else U[j], Q)
        edges = [-math.inf, *thresholds, math.inf]

        def below(w, d=d, edges=edges):
            if w == 0:
                return 0.0
            if w == len(edges) - 1:
                return 1.0
            return 1.0 / (1.0 + math.exp(-d - edges[w]))

        total += math.log(below(v) - below(v - 1))
    return total


def similar_cost(X, a, b, level, r, top=3):
    return sum(d2(X[i], X[j], r) for i, j, v in zip(a, b, level, strict=True) if v == top)


def dissimilar_distance(X, a, b, level, r):
    return sum(math.sqrt(d2(X[i], X[j], r)) for i, j, v in zip(a, b, level, strict=True) if v == 1)


def nca_log_likelihood(X, y, r):
    """Equation 3: sum of log P(c_i | x_i, all but i), objects alone in their class left out."""
    total = 0.0
    for i in range(len(X)):
        if sum(1 for c in y if c == y[i]) < 2:
            continue
        own = everything = 0.0
        for j in range(len(X)):
            if j == i:
                continue
            e = math.exp(-d2(X[i], X[j], r))
            everything += e
            if y[j] == y[i]:
                own += e
        total += math.log(own / everything)
    return total


def kernel_posterior(x, X, y, classes, w):
    """Section 3.4: P(c) p(x|c) / sum_m P(m) p(x|m), with the kernel's constant left out."""
    scores = []
    for c in classes:
        members = [i for i in range(len(X)) if y[i] == c]
        density = sum(math.exp(-d2(x, X[i], w)) for i in members) / len(members)
        scores.append(len(members) / len(X) * density)
    return np.array(scores) / sum(scores)


def ndcg(distances, levels, k):
    """One query; levels is a list of lists of ratings, empty where there is none."""
    rated = [i for i in range(len(levels)) if levels[i]]
    if not rated:
        return math.nan
    gain = {i: sum(2.0**v - 1 for v in levels[i]) / len(levels[i]) for i in rated}
    by_distance = sorted(rated, key=lambda i: (distances[i], i))
    by_rating = sorted(rated, key=lambda i: -gain[i])

    def dcg(order):
        return sum(gain[i] / math.log2(1 + p) for p, i in enumerate(order[:k], start=1))

    return dcg(by_distance) / dcg(by_rating)
