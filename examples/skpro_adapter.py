"""Use `TGGMRegressor` as a probabilistic regressor of skpro (needs `pip install skpro`).

    model = SkproRegressor(max_epochs=50).fit(X, y)  # X, y: data frames
    model.predict_proba(X_test).ppf(0.9)
    model.predict_interval(X_test, coverage=0.9)

skpro takes columns of numbers only. Its distributions are empirical: 999 quantiles of each row with equal
weights.
"""

import numpy as np
import pandas as pd
from skpro.distributions import Empirical
from skpro.regression.base import BaseProbaRegressor

from tggm import TGGMRegressor

LEVELS = np.arange(1, 1000) / 1000


class SkproRegressor(BaseProbaRegressor):
    """Fit a `TGGMRegressor` with the most common settings."""

    def __init__(self, n_members=10, max_epochs="auto", random_state=None):
        self.n_members, self.max_epochs, self.random_state = n_members, max_epochs, random_state
        super().__init__()

    def _fit(self, X, y):
        self.columns_, self.model_ = y.columns, TGGMRegressor(**self.get_params()).fit(X, y.iloc[:, 0])
        return self

    def _predict_proba(self, X):
        values = self.model_.predict_quantiles(X, LEVELS)
        places = pd.MultiIndex.from_product([range(len(LEVELS)), X.index])
        draws = pd.DataFrame(values.T.reshape(-1, 1), index=places, columns=self.columns_)
        return Empirical(draws, index=X.index, columns=self.columns_)
