import array_api_compat.numpy
import array_api_strict
import numpy as np
import pytest
from hypothesis import settings
from postgres_server import postgres_url  # noqa: F401 - a fixture for all tests

import nearkin as nk

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")


@pytest.fixture
def rng():
    return np.random.default_rng(20110526)


@pytest.fixture(params=["numpy", "array_api_strict"])
def xp(request):
    return {"numpy": array_api_compat.numpy, "array_api_strict": array_api_strict}[request.param]


def random_pairs(rng, n, n_ratings):
    a = rng.integers(0, n, n_ratings)
    return a, (a + 1 + rng.integers(0, n - 1, n_ratings)) % n


def rate(d2, rng, noise=0.5):
    """Levels 1 to 3 of noisy squared distances, cut at 20 % and 50 % as in the paper."""
    noisy = d2 + noise * d2.std() * rng.normal(size=len(d2))
    similar, neutral = np.quantile(noisy, [0.2, 0.5])
    return np.where(noisy < similar, 3, np.where(noisy < neutral, 2, 1))


@pytest.fixture
def study(rng):
    """Features, labels with gaps, and noisy ratings that depend on both."""
    n, K = 60, 4
    X = rng.normal(size=(n, K))
    y = np.array(["cyst", "metastasis", "hemangioma"], dtype=object)[rng.integers(0, 3, n)]
    a, b = random_pairs(rng, n, 400)
    d2 = ((X[a] - X[b]) ** 2) @ np.array([3.0, 1.0, 0.5, 0.0]) + 4.0 * (y[a] != y[b])
    ratings = nk.Ratings(a, b, rate(d2, rng))
    y[rng.random(n) < 0.25] = None
    return X, y, ratings
