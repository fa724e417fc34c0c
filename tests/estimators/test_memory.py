"""Sizes that cannot fit are refused before they are tried."""

import numpy as np
import pytest
from tggm.estimators.memory import memory_bytes, n_weights, require_room, spelled

from tests.cli.commands import complaint
from tests.estimators.small import three_classes
from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import memory
from tggm.models import Architecture

X, LABELS = three_classes()
HUGE = 10**9


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden": HUGE},
        {"hidden": (HUGE, HUGE)},
        {"hidden": 10**400},
        {"n_members": HUGE},
        {"hidden": (3,), "lateral": 10**13, "method": "ep", "linear": False},
        {"hidden": (HUGE, 3), "method": "meanfield", "deep": "undirected"},
    ],
    ids=str,
)
def test_no_such_model_is_tried(settings):
    model = TGGMRegressor(**settings)
    sentence = r"^`hidden` is .* `n_members` = .* takes at least .* GiB of memory to train; there are .* GiB"
    for check in (model.check_settings, lambda: model.fit(X, X[:, 0])):
        with pytest.raises(ValueError, match=sentence):
            check()


def test_it_may_depend_on_the_data(monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 5e6)
    model = TGGMClassifier(hidden=100, n_members=100)
    model.check_settings()  # a single column would fit
    with pytest.raises(
        ValueError, match=r"`hidden` is 100, which with `n_members` = 100 takes at least \d.* MiB"
    ):
        model.fit(np.tile(X, 30), LABELS)


def test_rows_of_a_mini_batch_count(monkeypatch):
    recipe = TGGMRegressor(hidden=100, n_members=1, batch_size=10_000).recipe()
    built = recipe.architecture(1, 1)
    monkeypatch.setattr(memory, "memory_bytes", lambda: 4 * 100 * 5000.0)
    require_room(recipe, built, 1000)  # a batch is no larger than the table
    with pytest.raises(ValueError, match="`hidden` is 100"):
        require_room(recipe, built, 10_000)


@pytest.mark.parametrize(
    "built",
    [
        Architecture(3, (50,), 2),
        Architecture(3, (50, 20), 1, features="periodic", linear=True),
        Architecture(3, (50,), 1, lateral=4),
        Architecture(3, (50,), 4, likelihood="probit", features="bounded"),
    ],
    ids=str,
)
def test_weights_are_most_of_what_a_model_has(built):
    has = sum(a.size for a in built.template(1).arrays().values())
    assert 0.6 * has < n_weights(built) < has


def test_memory_is_told():
    assert memory_bytes() > 2**28
    assert spelled(2**19) == "0.5 MiB"
    assert spelled(3 * 2**29) == "1.5 GiB"
    assert spelled(10**400) == "9.31e+290 GiB"


def test_the_command_line_refuses_it_too(tmp_path, monkeypatch, capsys):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,y", *(f"{x:.3f},{x * x:.3f}" for x in X[:, 1]), ""]))
    words = ("fit", str(path), "-t", "y", "-o", str(tmp_path / "m.tggm"), "--quiet")
    assert "tggm: --hidden is 1000000000, which with --members = 10 takes at least" in complaint(
        capsys, *words, "--hidden", str(HUGE)
    )
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1.4e6)
    assert "--hidden is [3000, 4], which with" in complaint(
        capsys, *words, "--hidden", "3000,4", "--members", "2"
    )
    assert not (tmp_path / "m.tggm").exists()
