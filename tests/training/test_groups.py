"""Pairs of members in parallel workers: equal results, dead workers, progress, checkpoints."""

import os
import signal
from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest
from joblib import parallel_config

from tests.estimators.small import PLAIN
from tggm import TGGMClassifier, TGGMRegressor
from tggm.data import from_arrays
from tggm.estimators._settings import Settings
from tggm.models.network import LogDensity
from tggm.training import Observer

X = np.random.default_rng(8).normal(size=(120, 2))
y = X[:, 0] + 0.1 * np.random.default_rng(9).normal(size=120)
TINY = {"hidden": 3, "n_members": 4, "max_epochs": 5, "random_state": 0, **PLAIN}
pytestmark = pytest.mark.filterwarnings("ignore:.*semaphore:UserWarning", "ignore:A worker stopped")


@dataclass(frozen=True)
class Killer(LogDensity):
    """The log-density, which kills the first worker that computes it."""

    marker: str
    parent: int

    def __call__(self, model, rows, progress=None):
        if os.getpid() != self.parent and not os.path.exists(self.marker):
            open(self.marker, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(model, rows)


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """Return the file that the killed worker writes; fits use `Killer`."""
    path, program = tmp_path / "killed", Settings.program
    killer = Killer(str(path), os.getpid())
    monkeypatch.setattr(
        Settings, "program", lambda self, *given: replace(program(self, *given), objective=killer)
    )
    return path


class Watch(Observer):
    def __init__(self):
        self.passes = []

    def progressed(self, epochs, trace):
        self.passes.append((epochs, trace.held.shape))


def same(a, b):
    arrays = a.fitted_.model.arrays(), b.fitted_.model.arrays()
    return all(np.array_equal(one, other) for one, other in zip(*map(dict.values, arrays), strict=True))


def test_the_number_of_workers_changes_no_bit(tmp_path):
    settings = {**TINY, "checkpoint": tmp_path / "state"}
    with jax.enable_x64(False):  # as in a new process
        watch = Watch()
        one = TGGMRegressor(**TINY, n_jobs=1).fit(X, y, observer=watch)
        two = TGGMRegressor(**settings, n_jobs=2).fit(X, y)
        again = TGGMRegressor(**settings, n_jobs=1).fit(X, y)  # from the checkpoints
    assert watch.passes == [(5, (2, 5))] * 2
    assert sorted(os.listdir(tmp_path)) == ["state.0", "state.1"]
    assert same(one, two)
    assert same(one, again)
    assert one.history_["held_out"].shape == (4, 5)
    assert np.array_equal(one.history_["held_out"], two.history_["held_out"])


def test_threads_of_products_change_no_bit():
    rows = np.random.default_rng(8).normal(size=(600, 2))
    with jax.enable_x64(False):
        one, two = (
            TGGMRegressor(n_members=4, max_epochs=2, random_state=0, n_jobs=n).fit(rows, rows[:, 0])
            for n in (1, 2)
        )
    assert same(one, two)


@pytest.mark.usefixtures("marker")
def test_a_dead_worker_ends_the_fit_with_one_sentence():
    model = TGGMRegressor(**TINY, n_jobs=2)
    with pytest.raises(RuntimeError, match=r"a worker ended.* a smaller `n_jobs`"):
        model.fit(X, y)
    assert not hasattr(model, "fitted_")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask
def test_dask_replaces_a_killed_worker(marker):
    distributed = pytest.importorskip("distributed")  # the extra `distributed`
    with (
        jax.enable_x64(False),
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        found = TGGMRegressor(**TINY, n_jobs=-1).fit(X, y)
    assert marker.exists()
    with jax.enable_x64(False):
        assert same(found, TGGMRegressor(**TINY, n_jobs=1).fit(X, y))


def test_histories_end_where_each_pair_stops():
    with jax.enable_x64(False):
        model = TGGMClassifier(hidden=3, n_members=4, random_state=0, n_jobs=1).fit(X, X[:, 0] > 0)
    ends = np.isfinite(model.history_["held_out"]).sum(1)
    assert len(set(ends[:2])) == len(set(ends[2:])) == 1
    assert model.n_iter_ == ends.max()


@pytest.mark.parametrize(
    ("n_jobs", "more", "message"),
    [
        (0, {}, "`n_jobs` must be None, a number of workers, or -1 for all cores; got 0"),
        (1, {"eval_set": (X, y)}, "`n_jobs` must be None with an `eval_set`"),
    ],
)
def test_bad_arguments(n_jobs, more, message):
    with pytest.raises(ValueError, match=message):
        TGGMRegressor(**TINY, n_jobs=n_jobs).fit(X, y, **more)


def test_streams_need_one_process():
    with pytest.raises(ValueError, match="`n_jobs` needs rows in memory"):
        TGGMRegressor(**TINY, n_jobs=2).fit(from_arrays(X, y))
