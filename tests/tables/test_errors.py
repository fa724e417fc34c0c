"""A warning about a table names the line that called the package."""

import numpy as np
import pandas as pd
import pytest

from tggm import TableTransformer, TableWarning


def test_a_warning_is_of_the_line_that_called():
    X = pd.DataFrame({"row": np.arange(60), "size": np.random.default_rng(0).normal(size=60)})
    with pytest.warns(TableWarning, match="row") as warned:
        TableTransformer().fit(X)
    with pytest.warns(TableWarning, match="row") as wrapped:  # by scikit-learn
        TableTransformer().fit_transform(X)
    assert {found.filename for found in (*warned, *wrapped)} == {__file__}
