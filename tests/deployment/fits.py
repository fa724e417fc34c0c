"""Small fitted models in double precision, and the same with other pools and transforms."""

from functools import lru_cache

import numpy as np
import pandas as pd

from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import from_state, to_state

COLUMNS = 4
ROWS = np.random.default_rng(1).normal(2.0, 3.0, (40, COLUMNS))
ROWS[-4:] *= 40  # far from the training rows
SETTINGS = {"hidden": (6, 5), "n_members": 3, "max_epochs": 3, "dtype": "float64", "random_state": 0}
STUDENT = ["student", 0.6, 2.0, 0.05]
KINDS = {  # pool and transform of a regressor
    "mixture": (["linear"], None),
    "student": (STUDENT, None),
    "shaped": (["shaped", 0.6, 2.0, 0.05, *np.sin(np.arange(17.0))], None),
    "log mixture": (["linear"], 0.0),
    "log student": (["scales", 0.6, 2.0, 0.0, 0.5], 1.5),
    "scales": (["scales", 0.6, 2.0, 0.2, 50.0], None),
    "log scales": (["scales", 0.6, 2.0, 0.2, 0.5], 1.5),
}
SUPPORTS = {"limits": [3.0, 7.0, None], "counts": [0.0, None, 1.0], "tenths": [None, None, 0.1]}


def _inputs():
    return np.random.default_rng(0).normal(2.0, 3.0, (60, COLUMNS))


@lru_cache
def _regressor(outputs, settings):
    X = _inputs()
    y = 5 + 2 * np.sin(X[:, :outputs]) + 0.3 * X[:, 1:2]
    return TGGMRegressor(**{**SETTINGS, **dict(settings)}).fit(X, y[:, 0] if outputs == 1 else y)


def regressor(kind="student", *, outputs=1, **settings):
    """Return a regressor with this pool and transform, or of a student with this support."""
    arrays, meta = to_state(_regressor(outputs, tuple(settings.items())))
    pool, transform = KINDS.get(kind, (STUDENT, None))
    meta |= {"calibration": [pool] * outputs, "transform": transform}
    meta |= {"supports": [SUPPORTS[kind], *(outputs - 1) * [None]] if kind in SUPPORTS else []}
    return from_state(TGGMRegressor, arrays, meta)


@lru_cache
def classifier(labels, **settings):
    """Return a classifier of these labels."""
    X = _inputs()
    places = np.digitize(X[:, 0] + X[:, 1], np.linspace(2, 6, len(labels) - 1))
    model = TGGMClassifier(**{**SETTINGS, **settings})
    return model.fit(X, np.asarray(labels)[places])


def table(rows=4):
    """Return a table with numbers, marks, words, dates, missing values and unknown words."""
    rng = np.random.default_rng(2)
    columns = {
        "size": [1.0, np.nan, -2.0, 0.3],
        "dose": ["0.1", "<0.5", None, "n.d."],
        "kind": ["a", "b", None, "z"],
        "grade": pd.Categorical(["mid", None, "top", "low"], ["low", "mid", "top"], ordered=True),
        "day": pd.to_datetime(["2020-03-01", "2021-07-05", None, "2022-01-01"]),
        "town": [None, "rome", "york", "oslo"],
    }
    frame = pd.DataFrame(columns)
    if rows == len(frame):
        return frame
    frame = frame.iloc[rng.integers(0, 4, rows)].reset_index(drop=True)
    frame["size"] = rng.choice([*rng.normal(size=20), np.nan], rows)
    frame["dose"] = rng.choice([*np.round(rng.random(30), 2).astype(str), "<0.5", "n.d.", None], rows)
    frame["kind"] = rng.choice(["a", "b", None], rows)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D")
    frame["town"] = rng.choice([f"town {k}" for k in range(40)] + ["rome", "york"], rows)
    return frame


@lru_cache
def table_model():
    """Return a regressor of a table with every kind of column."""
    frame = table(200)
    y = frame["size"].fillna(0.0).to_numpy() + (frame["kind"] == "a").to_numpy()
    return TGGMRegressor(**SETTINGS).fit(frame, y)
