"""Pictures of what a model says: Axes in, Axes out.

Every function draws on `ax`, or on a new figure if none is given, and returns the Axes. Nothing global is
changed, and matplotlib is imported only when something is drawn. Predictions come as a predictive object
of one output (`model.predict_dist(X)`), of which only `mean`, `std`, `cdf`, `ppf` and `interval` are used;
classifiers are drawn from their probabilities and labels.
"""

from tggm.plotting.activation import plot_activation as plot_activation
from tggm.plotting.classification import plot_confusion as plot_confusion
from tggm.plotting.classification import plot_decision_regions as plot_decision_regions
from tggm.plotting.classification import plot_reliability as plot_reliability
from tggm.plotting.explanation import plot_explanation as plot_explanation
from tggm.plotting.explanation import plot_importances as plot_importances
from tggm.plotting.graph import plot_graph as plot_graph
from tggm.plotting.learning_curve import plot_learning_curve as plot_learning_curve
from tggm.plotting.regression import plot_calibration as plot_calibration
from tggm.plotting.regression import plot_fan as plot_fan
from tggm.plotting.regression import plot_pit as plot_pit
from tggm.plotting.regression import plot_predicted as plot_predicted

__all__ = [
    "plot_activation",
    "plot_calibration",
    "plot_confusion",
    "plot_decision_regions",
    "plot_explanation",
    "plot_fan",
    "plot_graph",
    "plot_importances",
    "plot_learning_curve",
    "plot_pit",
    "plot_predicted",
    "plot_reliability",
]
