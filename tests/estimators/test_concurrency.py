"""Estimators in several threads and processes, and the number of programs that a search compiles."""

import concurrent.futures
import os
import select
import signal
import threading

import jax
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold

from tests.estimators.small import PLAIN
from tggm import TGGMClassifier, TGGMRegressor

RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 2))
Y = np.stack([X[:, 0], X[:, 1] - X[:, 0]], axis=1) + 0.1 * RNG.normal(size=(60, 2))
TINY = {"hidden": 3, "n_members": 1, "max_epochs": 5, "random_state": 0}


@pytest.fixture(scope="module")
def models():
    """Return a regressor of two outputs, whose joint density factorises matrices, and a classifier."""
    return [TGGMRegressor(**TINY).fit(X, Y), TGGMClassifier(**TINY).fit(X, X[:, 0] > 0)]


def predictions(models, rows):
    two, labels = models
    log_density = two.predict_dist(rows).logpdf(np.zeros((len(rows), 2)))
    return [*two.predict(rows, return_std=True), log_density, labels.predict_proba(rows)]


def test_predictions_in_threads_equal_those_of_one_thread(models):
    tables = [RNG.normal(size=(60, 2)) for _ in range(12)]  # the first thread compiles
    found = {}

    def work(first):
        for k in range(first, len(tables), 4):
            found[k] = predictions(models, tables[k])

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert sorted(found) == list(range(12)), "an error or a deadlock"
    for k, rows in enumerate(tables):
        assert all(np.array_equal(a, b) for a, b in zip(found[k], predictions(models, rows), strict=True))


def test_threads_may_fit_at_the_same_time():
    def weights(seed):
        return TGGMRegressor(**{**TINY, "random_state": seed}).fit(X, Y).W0_

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for seed, found in enumerate(pool.map(weights, range(3))):
            assert np.array_equal(found, weights(seed))


def test_a_search_compiles_one_program_and_processes_give_the_same_scores():
    compiled = []

    def listener(event, duration, **more):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(more["fun_name"])

    rows, plain = RNG.normal(size=(103, 4)), TGGMRegressor(**TINY, **PLAIN, calibrate=False)
    grid = {"learning_rate": [0.003, 0.01, 0.03], "weight_decay": [0.1, 1.0]}
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        GridSearchCV(plain, {"learning_rate": [0.02]}, cv=KFold(3)).fit(rows, rows[:, 0])
        first = len(compiled)
        one = GridSearchCV(plain, grid, cv=KFold(3)).fit(rows, rows[:, 0])
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert len(one.cv_results_["params"]) == 6
    assert 1 <= sum("chunk" in name for name in compiled) <= 4  # folds and the whole table share a shape
    assert len(compiled) == first  # other settings compile nothing
    best = {name: [value] for name, value in one.best_params_.items()}
    # fresh processes, without the tests' double precision: single precision does not depend on it
    two = GridSearchCV(plain, best, cv=KFold(3), n_jobs=2, refit=False)
    two.fit(rows, rows[:, 0])
    np.testing.assert_allclose(two.cv_results_["mean_test_score"][0], one.best_score_, rtol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")  # of JAX and Python; the model raises an error
def test_a_forked_process_gets_an_error_instead_of_a_deadlock(models):
    """The threads of JAX do not exist in it; the search above uses spawned processes."""
    model = models[0]
    model.predict(X)
    received, sent = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            model.predict(X)  # few rows need no JAX
            model.predict(np.zeros((1001, 2)))
        except RuntimeError as error:
            os.write(sent, str(error).encode())
        finally:
            os._exit(0)
    os.close(sent)
    with os.fdopen(received, "rb") as answer:
        answered = select.select([answer], [], [], 30)[0]
        if not answered:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert b"multiprocessing.get_context('spawn')" in answer.read()
