"""What the shape of a deep model's density is worth, before and after calibration.

    TGGM_DATA=... python experiments/deep_density.py [--tables mpg,autos] [--rows 60] [--draws 4000]

Networks of several layers are taken for Gaussians with their moments. Here their true densities of test rows
are computed from draws of the hidden units, p(y) = E N(y given h), and compared in mean log-density: mixtures
as they are ("gaussian", "true"), and each mapped by the beta distribution that suits these rows best, beside
the Student-t of the pool with numbers chosen in the same way ("pool"). All are chosen in hindsight, so that
only their shapes differ. "error" is what half of the draws change in the mean log-density. The first split
of development tables; stores experiments/results/deep_density.json.
"""

import warnings
from typing import Any

import jax
import numpy as np
from deep_trained import latent
from page import table
from runs import RESULTS, begin, complete, options, origin, read
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp

from tables import TABLES
from tggm import TGGMRegressor
from tggm.predictive.beta_map import log_beta_weight
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.moments import member_moments
from tggm.predictive.pools import POOLS

RESULT = RESULTS / "deep_density.json"
COLUMNS = ("gaussian", "true", "gaussian_mapped", "true_mapped", "pool", "error")


def true_logs(model: TGGMRegressor, Z: np.ndarray, y: np.ndarray, draws: int) -> np.ndarray:
    """Log-density, log P(Y ≤ y), log P(Y > y) of members at rows, and log-densities by half of the draws."""
    rng, found = np.random.default_rng(0), []
    for k in range(model.n_members):
        one = jax.tree.map(lambda a, k=k: a[k], model.fitted_.model)
        psi, b = np.asarray(one.features(Z)), np.asarray(one.outputs(Z).output.intercept)
        W1, noise = np.asarray(one.likelihood.output.W1)[0], float(np.exp(one.likelihood.log_noise[0]))
        b = np.broadcast_to(b[:, 0], len(Z))
        for row in range(len(Z)):
            u = (y[row] - latent(rng, one, psi[row], draws) @ W1 - b[row]) / np.sqrt(noise)
            logs = np.stack([-0.5 * u * u - 0.5 * np.log(2 * np.pi * noise), log_ndtr(u), log_ndtr(-u)])
            half = logsumexp(logs[0, : draws // 2]) - np.log(draws // 2)
            found.append([*(logsumexp(logs, axis=1) - np.log(draws)), half])
    return np.array(found).reshape(model.n_members, len(Z), 4)


def mapped(logs: np.ndarray) -> float:
    """Mean log-density of a mixture whose distribution function a beta distribution maps best."""

    def loss(u: np.ndarray) -> float:
        return -float(np.mean(logs[0] + log_beta_weight(*np.exp(u), logs[1], logs[2])))

    return -min(minimize(loss, [s, s], method="Nelder-Mead").fun for s in (0.0, 1.0))


def pooled(members: MomentPredictive, y: np.ndarray) -> float:
    """The same of the Student-t with the best numbers."""
    scores = POOLS["student"].scores(members, y)

    def loss(u: np.ndarray) -> float:
        f, g = np.exp(np.clip(u[:2], -4, 4))
        return -float(np.mean(scores((f, g, float(np.clip(u[2], 0, 0.4))))))

    return -min(minimize(loss, [s, s, 0.1], method="Nelder-Mead").fun for s in (0.0, -1.0))


def run(name: str, rows: int, draws: int) -> dict[str, Any]:
    """One table."""
    warnings.simplefilter("ignore")
    split = TABLES[name].split(0)
    model = TGGMRegressor(target_transform=None, random_state=0).fit(split.X_train, split.y_train)
    scales = model.fitted_.scales
    Z = scales.x.apply(split.X_test[:rows], most=model.fitted_.model.features.most)
    y = scales.y.apply(np.asarray(split.y_test[:rows], float)[:, None])[:, 0]
    mean, var = member_moments(model.fitted_.model, Z, model.engine(), model.dtype)
    members = MomentPredictive(mean[:, :, 0], var[:, :, 0])
    gaussian = np.stack([members.logpdf(y), members.logcdf(y), members.logsf(y)])
    *true, half = np.moveaxis(logsumexp(true_logs(model, Z, y, draws), axis=0) - np.log(len(mean)), 1, 0)
    logs = [gaussian, np.stack(true)]
    raw, after = [float(a[0].mean()) for a in logs], [mapped(a) for a in logs]
    error = float(abs(true[0].mean() - half.mean()))
    return dict(zip(COLUMNS, [*raw, *after, pooled(members, y), error], strict=True))


def block() -> str:
    """The table of the documentation."""
    rows = [[key.split()[0], *(f"{r[c]:.3f}" for c in COLUMNS)] for key, r in read(RESULT)["runs"].items()]
    head = ["table", "Gaussian", "true", "Gaussian, mapped", "true, mapped", "Student-t", "error of draws"]
    return table(head, rows)


if __name__ == "__main__":
    begin()
    parser = options(__doc__)
    parser.add_argument("--tables", default="mpg,autos,servo,friedman1")
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--draws", type=int, default=4000)
    given = parser.parse_args()
    tasks = [(name, given.rows, given.draws) for name in given.tables.split(",")]
    complete(RESULT, origin(settings={"seed": 0}), run, tasks, given.jobs, force=given.force)
    print(block())
