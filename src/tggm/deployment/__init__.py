"""Predict without JAX: by NumPy alone, or by an ONNX runtime."""

from tggm.deployment.onnx_export import export_onnx as export_onnx
from tggm.deployment.predictors import NumPyClassifier as NumPyClassifier
from tggm.deployment.predictors import NumPyRegressor as NumPyRegressor
