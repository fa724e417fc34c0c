"""Log a model to MLflow as a pyfunc model that predicts whole distributions (needs `pip install mlflow`).

    model = TGGMRegressor().fit(X, y)
    tggm.save(model, "model.tggm")
    mlflow.pyfunc.log_model(
        name="prices", python_model=Distributions(), artifacts={"model": "model.tggm"},
        signature=mlflow.models.infer_signature(X, params={"quantiles": [0.05, 0.5, 0.95]}),
    )

A table is predicted as mean, standard deviation and quantiles; `predict(X, params={"quantiles": [0.1, 0.9]})`
selects them (MLflow ignores `params` that the signature lacks).
"""

import mlflow.pyfunc
import pandas as pd

import tggm


class Distributions(mlflow.pyfunc.PythonModel):
    """Load a model file, and predict a data frame."""

    def load_context(self, context):
        """Load the model file among the artifacts."""
        self.model = tggm.load(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        """Return one row of numbers for each row of `model_input`."""
        levels = (params or {}).get("quantiles", [0.05, 0.25, 0.5, 0.75, 0.95])
        mean, std = self.model.predict(model_input, return_std=True)
        found = self.model.predict_quantiles(model_input, levels)
        columns = {f"q{level:g}": found[:, k] for k, level in enumerate(levels)}
        return pd.DataFrame({"mean": mean, "std": std, **columns})
