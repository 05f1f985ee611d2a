"""The synthetic study of section 4.1: the appendix's generative model, its objects and ratings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.data import Ratings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SIMILAR_QUANTILE, NEUTRAL_QUANTILE = 0.2, 0.5  # step 3: first quintile and median


@dataclass(frozen=True)
class Mixture:
    """Mixture of Gaussians: ``shares`` (I,), ``means`` (I, D), ``factors`` (I, D, D)."""

    shares: Floats
    means: Floats
    factors: Floats

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Return n draws (n, D)."""
        part = rng.choice(len(self.shares), size=n, p=self.shares)
        noise = rng.normal(size=(n, self.means.shape[1]))
        # covariance Sigma^T Sigma: x = mu + Sigma^T e  (D,)
        x: Floats = self.means[part] + np.einsum("nij,ni->nj", self.factors[part], noise)
        return x


@dataclass(frozen=True)
class GenerativeModel:
    """One draw of Algorithm 1: class shares, p(x|c), p(z|c), and the raters' weights."""

    class_shares: Floats
    observed: tuple[Mixture, ...]
    missing: tuple[Mixture, ...]
    r: Floats
    r_missing: Floats

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Integers]:
        """Return features x (n, K), missing features z (n, J) and classes (n,)."""
        c = rng.choice(len(self.class_shares), size=n, p=self.class_shares)
        return *self.features(c, rng), c

    def features(self, c: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return features x (n, K) and missing features z (n, J) of objects of classes c (n,)."""
        x = np.empty((len(c), len(self.r)))
        z = np.empty((len(c), len(self.r_missing)))
        for m in range(len(self.class_shares)):
            own = c == m
            x[own] = self.observed[m].sample(int(own.sum()), rng)
            z[own] = self.missing[m].sample(int(own.sum()), rng)
        return x, z


def sample_model(
    rng: np.random.Generator,
    n_features: int = 20,
    n_missing: int = 20,
    n_classes: int = 3,
    observed_parts: int = 5,
    missing_parts: int = 2,
    rate_observed: float = 1.0,
    rate_missing: float = 0.2,
) -> GenerativeModel:
    """Sample a generative model by Algorithm 1 of the appendix; Exp(.) takes a rate."""

    def mixture(parts: int, D: int) -> Mixture:
        shares = rng.uniform(0.5, 1.5, size=parts)
        means = rng.normal(size=(parts, D))
        factors = rng.normal(scale=np.sqrt(1.0 / D), size=(parts, D, D))
        return Mixture(shares / shares.sum(), means, factors)

    alpha, observed, missing = [], [], []
    for _ in range(n_classes):
        alpha.append(rng.uniform(0.5, 1.5))
        observed.append(mixture(observed_parts, n_features))
        missing.append(mixture(missing_parts, n_missing))
    return GenerativeModel(
        np.array(alpha) / np.sum(alpha),
        tuple(observed),
        tuple(missing),
        rng.exponential(1.0 / rate_observed, size=n_features),
        rng.exponential(1.0 / rate_missing, size=n_missing),
    )


@dataclass(frozen=True)
class Study:
    """Objects of one model and ratings of all ordered pairs (0 on the diagonal)."""

    model: GenerativeModel
    X: Floats
    Z: Floats
    y: Integers
    levels: Integers
    n_train: int

    @property
    def train(self) -> tuple[Floats, Integers]:
        """Features and labels of the training objects, the database."""
        return self.X[: self.n_train], self.y[: self.n_train]

    @property
    def queries(self) -> Floats:
        """Features of the test objects."""
        return self.X[self.n_train :]

    @property
    def query_levels(self) -> Integers:
        """Ratings of test objects (rows) against the database (columns)."""
        return self.levels[self.n_train :, : self.n_train]

    def training_ratings(self, fraction: float, rng: np.random.Generator) -> Ratings:
        """Return a random share of the ordered training pairs, rated (step 5)."""
        n = self.n_train
        a, b = np.divmod(np.arange(n * n), n)
        a, b = a[a != b], b[a != b]
        chosen = rng.choice(len(a), size=round(fraction * len(a)), replace=False)
        a, b = a[chosen], b[chosen]
        return Ratings(a, b, self.levels[a, b])


def draw_study(
    rng: np.random.Generator,
    model: GenerativeModel | None = None,
    n_objects: int = 200,
    n_train: int = 100,
    noise: float = 50.0,
) -> Study:
    """Draw a model, its objects and the ratings of all ordered pairs (steps 1 to 4)."""
    model = sample_model(rng) if model is None else model
    x, z, c = model.sample(n_objects, rng)
    return rate_all_pairs(rng, model, x, z, c, n_train, noise)


def rate_all_pairs(
    rng: np.random.Generator,
    model: GenerativeModel,
    x: Floats,
    z: Floats,
    c: Integers,
    n_train: int,
    noise: float,
) -> Study:
    """Rate all ordered pairs of these objects (step 3); the first ``n_train`` are for training."""
    # y = sum_k r_k (x_k - x'_k)^2 + sum_j r_perp_j (z_j - z'_j)^2 + noise  (n, n)
    wx, wz = x * np.sqrt(model.r), z * np.sqrt(model.r_missing)
    everything = np.concatenate([wx, wz], axis=1)
    norm = np.sum(everything**2, axis=1)
    y = norm[:, None] + norm - 2.0 * everything @ everything.T
    y += rng.normal(scale=noise, size=y.shape)
    off = ~np.eye(len(c), dtype=bool)
    similar, neutral = np.quantile(y[off], [SIMILAR_QUANTILE, NEUTRAL_QUANTILE])
    levels = np.where(y < similar, 3, np.where(y < neutral, 2, 1)) * off
    return Study(model, x, z, c, levels, n_train)
