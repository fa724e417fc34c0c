"""Plots of predictions and models on matplotlib Axes.

Every function draws on `ax`, or on a new figure if none is given, and returns the Axes. Global settings are
not changed, and matplotlib is imported by the first plot. Predictions are passed as a predictive
distribution `dist` of one output (`model.predict_dist(X)`), with observations `y` of shape (rows,). For
classifiers use scikit-learn's `sklearn.metrics.ConfusionMatrixDisplay`,
`sklearn.calibration.CalibrationDisplay` and `sklearn.inspection.DecisionBoundaryDisplay`.
"""

from tggm.plotting.predictions import plot_calibration, plot_fan, plot_importances, plot_predicted

__all__ = ["plot_calibration", "plot_fan", "plot_importances", "plot_predicted"]
