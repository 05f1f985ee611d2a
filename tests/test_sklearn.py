"""scikit-learn's own checks, every one of them.

The checks call ``fit(X, y)`` and know nothing of ratings. So a learner that needs them is given
some by a subclass, and then passes all checks too: none is on a list of expected failures. Only
what a learner says without any ratings cannot be one of these checks; ``test_learners.py`` has it.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin as nk


def some_ratings(n):
    """Ratings of neighbouring rows: the checks themselves know of none."""
    a = np.arange(n - 1)
    return nk.Ratings(a, a + 1, 1 + a % 3)


class Rated:
    """Gives a learner of ratings some, where a check calls ``fit(X, y)``."""

    def fit(self, X, y=None, ratings=None):
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if ratings is None and n > 3:
            ratings = some_ratings(n)
        return super().fit(X, y, ratings)


class RatedOrdinalRegression(Rated, nk.OrdinalRegression):
    pass


class RatedConvexOptimization(Rated, nk.ConvexOptimization):
    pass


class RatedHybrid(Rated, nk.Hybrid):
    pass


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        nk.KernelClassifier(random_state=0),
        nk.NCA(penalty=1.0),
        nk.CorrelationFilter(),
        nk.Euclidean(),
        RatedOrdinalRegression(ridge=1.0),
        RatedConvexOptimization(),
        RatedHybrid(
            learner=nk.OrdinalRegression(ridge=1.0), classifier=nk.KernelClassifier(penalty=1.0)
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
