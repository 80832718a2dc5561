"""nacre's nets as scikit-learn's estimators."""

from .estimators import NacreClassifier as NacreClassifier
from .estimators import NacreRegressor as NacreRegressor
