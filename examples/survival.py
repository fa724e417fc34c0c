"""Survival times, most of them censored: predicted survival compared with the Kaplan-Meier estimate."""

import numpy as np

from tggm import TGGMRegressor
from tggm.censored import concordance_index


def draw_patients(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw four columns, and a structured array of event and time, as scikit-survival has it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4))
    time = np.exp(1.8 + 0.5 * X[:, 0] - 0.8 * X[:, 1] + 0.6 * rng.standard_normal(rows))
    end = rng.uniform(1, 8, rows)  # of the study
    y = [*zip(time <= end, np.minimum(time, end), strict=True)]
    return X, np.array(y, [("event", bool), ("time", float)])


def kaplan_meier(y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the share of rows without an event until each time."""
    y = np.sort(y, order="time")
    steps = np.append(1.0, np.cumprod(1 - y["event"] / np.arange(len(y), 0, -1)))
    return steps[np.searchsorted(y["time"], times, side="right")]


def main(rows: int = 1200, new_rows: int = 4000) -> tuple[float, float]:
    X, y = draw_patients(rows, seed=0)
    model = TGGMRegressor(hidden=(20, 20), n_members=4, random_state=0).fit(X, y)
    (new, truth), times = draw_patients(new_rows, seed=1), np.linspace(0.25, 6, 24)
    survival = model.predict_survival(new, times)
    thirds = np.array_split(np.argsort(survival.mean(1)), 3)
    errors = [survival[third].mean(0) - kaplan_meier(truth[third], times) for third in thirds]
    order = concordance_index(truth["time"], truth["event"], -survival.mean(1))
    print(f"{100 * np.mean(~y['event']):.0f} % censored, concordance {order:.3f}")
    print(f"largest error of the mean S(t) in a third: {np.abs(errors).max():.3f}")
    return float(np.abs(errors).max()), order


if __name__ == "__main__":
    main()
