"""nearkin learns the distance that experts see, from ratings of pairs and class labels."""

from nearkin._version import __version__
from nearkin.classifiers import KernelClassifier
from nearkin.data import Objects, Ratings
from nearkin.evaluation import ndcg
from nearkin.latent import LatentFeatures
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.metric import Metric
from nearkin.missing import ItemProfiles
from nearkin.persistence import load_metric, load_points
from nearkin.points import Points
from nearkin.preparation import CorrelationFilter
from nearkin.selection import Selection, select
from nearkin.solvers import Solution
from nearkin.tables import read_objects, read_ratings

__all__ = [
    "NCA",
    "ConvexOptimization",
    "CorrelationFilter",
    "Euclidean",
    "Hybrid",
    "ItemProfiles",
    "KernelClassifier",
    "LatentFeatures",
    "Metric",
    "Objects",
    "OrdinalRegression",
    "Points",
    "Ratings",
    "Selection",
    "Solution",
    "__version__",
    "load_metric",
    "load_points",
    "ndcg",
    "read_objects",
    "read_ratings",
    "select",
]
