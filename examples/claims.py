"""Claims: most policies have none, and the others have a long tail."""

import numpy as np

from tggm import TGGMRegressor


def draw_policies(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw age, power of the car and town (0 or 1), and the sum of a year's claims."""
    rng = np.random.default_rng(seed)
    age, power, town = rng.uniform(18, 80, rows), rng.gamma(9, 10, rows), rng.integers(0, 2, rows)
    rate = 0.06 * np.exp(2.5 * np.exp(-(age - 18) / 10) + 0.006 * power + 0.5 * town)
    number, size = rng.poisson(rate), np.exp(5.5 + 0.01 * power + rng.standard_normal(rows))
    return np.stack([age, power, town], axis=1), np.round(number * size, 2)


def main(rows: int = 1500, new_rows: int = 6000) -> tuple[float, float]:
    X, claims = draw_policies(rows, seed=0)
    model = TGGMRegressor(hidden=(20, 20), n_members=4, random_state=0).fit(X, claims)
    print(f"{100 * np.mean(claims == 0):.0f} % without a claim; support: {model.support_}")

    new, paid = draw_policies(new_rows, seed=1)
    dist = model.predict_dist(new)
    claim = 1 - np.exp(dist.logpmf(0.0))  # the probability of a claim
    thirds = np.array_split(np.argsort(claim), 3)
    amounts = np.append(0, np.geomspace(20, 10_000, 40))
    above = np.stack([np.exp(dist.logsf(y)) for y in amounts], axis=1)  # P(claims > amount)
    for name, third in zip(("low", "middle", "high"), thirds, strict=True):
        seen, most = np.mean(paid[third] > 0), dist.ppf(0.95)[third].mean()
        print(f"{name} risk: predicted {claim[third].mean():.3f}, observed {seen:.3f}, 95 % below {most:.0f}")
    errors = [above[third].mean(0) - (paid[third, None] > amounts).mean(0) for third in thirds]
    return float(np.abs(errors).max()), float(np.mean(paid <= dist.ppf(0.95)))


if __name__ == "__main__":
    main()
