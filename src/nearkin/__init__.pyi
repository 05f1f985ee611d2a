"""The public names and where they live; ``__init__.py`` loads each when it is first used."""

from nearkin import index as index
from nearkin._version import __version__ as __version__
from nearkin.classifiers import KernelClassifier as KernelClassifier
from nearkin.data import Objects as Objects
from nearkin.data import Ratings as Ratings
from nearkin.evaluation import ndcg as ndcg
from nearkin.latent import LatentFeatures as LatentFeatures
from nearkin.learners.convex import ConvexOptimization as ConvexOptimization
from nearkin.learners.euclidean import Euclidean as Euclidean
from nearkin.learners.hybrid import Hybrid as Hybrid
from nearkin.learners.nca import NCA as NCA
from nearkin.learners.ordinal import OrdinalRegression as OrdinalRegression
from nearkin.metric import Metric as Metric
from nearkin.missing import ItemProfiles as ItemProfiles
from nearkin.persistence import load_metric as load_metric
from nearkin.persistence import load_points as load_points
from nearkin.points import Points as Points
from nearkin.preparation import CorrelationFilter as CorrelationFilter
from nearkin.selection import Selection as Selection
from nearkin.selection import select as select
from nearkin.solvers import Solution as Solution
from nearkin.tables import read_objects as read_objects
from nearkin.tables import read_ratings as read_ratings
