"""nearkin learns the distance that experts see, from ratings of pairs and class labels."""

from nearkin._version import __version__
from nearkin.classifiers import KernelClassifier
from nearkin.data import Objects, Ratings
from nearkin.evaluation import ndcg
from nearkin.learners.convex import ConvexOptimization
from nearkin.learners.hybrid import Hybrid
from nearkin.learners.nca import NCA
from nearkin.learners.ordinal import OrdinalRegression
from nearkin.metric import Metric
from nearkin.missing import ItemProfiles, LatentFeatures
from nearkin.persistence import load_metric, load_points
from nearkin.points import Points
from nearkin.solvers import Solution
from nearkin.tables import read_objects, read_ratings

__all__ = [
    "NCA",
    "ConvexOptimization",
    "Hybrid",
    "ItemProfiles",
    "KernelClassifier",
    "LatentFeatures",
    "Metric",
    "Objects",
    "OrdinalRegression",
    "Points",
    "Ratings",
    "Solution",
    "__version__",
    "load_metric",
    "load_points",
    "ndcg",
    "read_objects",
    "read_ratings",
]
