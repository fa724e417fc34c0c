"""A few thousand changed model files, and all that once went wrong; `make fuzz` is the full count."""

import numpy as np
import pytest
from tools.fuzz import verdict as judge
from tools.fuzz.corpus import PAST, past
from tools.fuzz.mutations import Contents
from tools.fuzz.originals import filled as as_if_fitted
from tools.fuzz.originals import originals

from tests.cases import few
from tggm import ModelFileError, TGGMClassifier, TGGMRegressor
from tggm.estimators.state import ASIDE, COLUMNS, COUNTS
from tggm.files import model_file, parse_model
from tggm.models.features import FEATURES
from tggm.models.hidden import HIDDEN
from tggm.predictive.pools import POOLS
from tggm.predictive.transforms import TRANSFORMS
from tggm.storage import decode, encode
from tggm.tables.columns import COLUMNS as KINDS_OF_COLUMNS
from tools import fuzz_model_files as fuzz


def test_changed_model_files_are_refused_or_load(monkeypatch):
    complaints = []
    monkeypatch.setattr(judge, "LOADING", 1.0)  # on a busy machine
    found = fuzz.run(2000, seed=1, show=complaints.append, predicts=False)
    assert found["files"] > 1950
    assert found["violations"] == 0, complaints


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        (lambda content, source: (None, None), "loaded"),
        (lambda content, source: {}["x"], "KeyError: 'x'"),
        (lambda content, source: (bytearray(2**26), None), "WrongError: reading took 671"),
    ],
)
def test_a_careless_reader_is_caught(monkeypatch, reader, found):
    monkeypatch.setattr(judge, "LOADING", 10.0)
    monkeypatch.setattr(judge, "parse_model", reader)
    assert judge.verdict(b"x", traced=True, predicts=False).startswith(found)


def test_a_reader_that_takes_anything_is_caught(monkeypatch):
    monkeypatch.setattr(judge, "parse_model", lambda content, source: (None, None))
    assert fuzz.run(40, seed=1, predicts=False)["violations"] == 20


def test_slow_work_is_caught(monkeypatch):
    monkeypatch.setattr(judge, "TRIES", 1)
    with pytest.raises(judge.SlowError, match="thinking took"):
        judge.timed(lambda: sum(range(10_000)), 0.0, "thinking")


@pytest.fixture(scope="module")
def files():
    return originals()


@pytest.fixture(scope="module")
def sound(files):
    return list(files.values())


def test_the_files_have_everything_that_a_file_can_name(files):
    """The loader's own tables of names, so that what is added to them is fuzzed, too."""
    said = [decode(content)[1] for content in files.values()]
    models = [parse_model(content, "it").model.fitted_ for content in files.values()]
    assert {type(each.model.hidden) for each in models} == set(HIDDEN.values())
    assert {each["state"]["sizes"]["features"] for each in said} == set(FEATURES)
    assert {pool[0] for each in said for pool in each["state"].get("calibration", [])} == set(POOLS)
    transforms = {each["state"]["transform"][0] for each in said if each["state"].get("transform")}
    assert transforms == set(TRANSFORMS) - {"identity"}
    tables = [each["table"] for each in said if "table" in each]
    assert {column["kind"] for table in tables for column in table["columns"]} == set(KINDS_OF_COLUMNS)
    assert any(each.guarantee is not None for each in models)


def test_every_field_is_changed_in_a_run(files):
    """Arrays of one file, and entries of its description at any depth."""
    original = Contents(files["one"])
    arrays, settings = set(), set()
    for k in range(1, 1200, 2):
        try:
            found, model = decode(fuzz.changed(k, 3, [files["one"]])[1])
        except ModelFileError:
            continue
        arrays |= {name for name, a in original.arrays.items() if differs(a, found.get(name))}
        given = model.get("state")
        if isinstance(given, dict) and isinstance(given.get("settings"), dict):
            before = original.model["state"]["settings"]
            settings |= {name for name in before if given["settings"].get(name) != before[name]}
    assert arrays == set(original.arrays)
    assert len(settings) > 0.8 * len(original.model["state"]["settings"])


def differs(a, b):
    return b is None or a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=True)


CHEAP = ("log", "power", "classes")  # kinds whose predictions compile in a few seconds


@pytest.mark.parametrize("name", PAST)
def test_what_once_went_wrong_stays_right(files, name, monkeypatch):
    monkeypatch.setattr(judge, "PREDICTING", 20.0)  # on a busy machine, a program may be compiled
    content, expected = past(name, files)
    assert judge.verdict(content, predicts=PAST[name][0] in CHEAP) == expected


def refused(arrays, description, reason):
    with pytest.raises(ModelFileError, match=reason):
        parse_model(encode(arrays, description), "it")


def changed(sound, change):
    """Every file with each of its arrays changed in turn, and the name of that array."""
    for content in sound:
        for name in set(decode(content)[0]) - {ASIDE}:  # of which there may be any number, or none
            arrays, description = decode(content)
            change(arrays, name)
            yield name, arrays, description


def set_(arrays, name, value):
    arrays[name] = value


CHANGES = {
    "missing": (lambda arrays, name: arrays.pop(name), "missing or do not belong|KeyError"),
    "renamed": (
        lambda arrays, name: set_(arrays, name + ".9", arrays.pop(name)),
        "missing or do not belong|KeyError",
    ),
    "longer": (
        lambda arrays, name: set_(arrays, name, np.repeat(arrays[name], 2, -1)),
        "has shape|a vector as target",
    ),
    "of higher rank": (lambda arrays, name: set_(arrays, name, arrays[name][None]), "has shape"),
    "of truths": (lambda arrays, name: set_(arrays, name, arrays[name] != 0), "is of type bool"),
    "of bytes": (lambda arrays, name: set_(arrays, name, arrays[name].astype(np.uint8)), "is of type uint8"),
}


@pytest.mark.parametrize("change", few(CHANGES, "missing", "longer", "of bytes"))
def test_every_array_must_be_what_the_settings_ask_for(sound, change):
    edit, reason = CHANGES[change]
    for _, arrays, description in changed(sound, edit):
        refused(arrays, description, reason)


def test_every_parameter_must_be_a_number_that_can_be_computed_with(sound):
    def huge(arrays, name):
        arrays[name] = np.full(arrays[name].shape, 1e300 if name.startswith("model.") else np.nan)

    for name, arrays, description in changed(sound, huge):
        if name in COUNTS:
            refused(arrays, description, "is of type float64")
        elif not name.startswith("history."):  # a curve may have gaps
            refused(
                arrays, description, "computed with|lateral connections must be|noise must|must be finite"
            )


def setting(name, value):
    return lambda arrays, state: state["settings"].update({name: value})


def filled(name, value):
    return lambda arrays, state: arrays.update({name: np.full_like(arrays[name], value)})


def without_members(arrays, state):
    shared = (*COLUMNS, "history.epoch")
    arrays.update({name: a if name in shared else a[:0] for name, a in arrays.items()})


WRONG = {
    "no noise": (filled("model.likelihood.log_noise", -1000), "the noise must be"),
    "size of V": (filled("model.hidden.V", 1e12), "lateral connections must be"),
    "no variance": (setting("sigma0", 1e-300), "`sigma0` must be between"),
    "variance": (setting("sigma0", 1e200), "`sigma0` must be between"),
    "gauge": (setting("sigma0", 0.2), "gauge of its arrays is not that of its settings"),
    "no members": (without_members, "has shape"),
    "members": (setting("n_members", 10**9), "its settings ask for"),
    "one member more": (setting("n_members", 3), "its settings ask for"),
    "units": (setting("hidden", 10**9), "not those of its settings"),
    "other units": (setting("hidden", [7]), "not those of its settings"),
    "layers": (setting("hidden", [3, 2, 2]), "not those of its settings|lateral. connections need one"),
    "lateral": (setting("lateral", 1), "TypeError|`lateral` connections|lateral=1|missing|its settings ask"),
    "method": (setting("method", "magic"), "`method` must be one of"),
    "letters": (lambda arrays, state: state.update(features="x" * len(arrays["x.shift"])), "list of words"),
    "numbers": (lambda arrays, state: state.update(features=[1] * len(arrays["x.shift"])), "list of words"),
    "names": (lambda arrays, state: state.update(features=["x"] * 9), "9 feature names for"),
    "classes": (lambda arrays, state: state["classes"].append("zz"), "its settings ask for"),
    "a vector": (
        lambda arrays, state: (
            state.update(vector_target=not state["vector_target"]) if two(arrays) else 1 / 0
        ),
        "a vector as target, but 2 outputs",
    ),
    "epoch": (filled("best_epoch", -1), "must not be negative"),
    "undone": (filled("undone", -1), "must not be negative"),
    "curve": (filled("history.epoch", 1), "must be 2 rising numbers"),
    "scale": (filled("x.scale", 0), "scales positive"),
    "more": (lambda arrays, state: arrays.update(more=np.zeros(2)), "do not belong to it: .'more'"),
    "answer": (lambda arrays, state: state.update(converged="no"), "must be true or false"),
    "checkpoint": (setting("checkpoint", "elsewhere"), "no place for a checkpoint"),
}


def two(arrays):
    return len(arrays["y.shift"]) == 2


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_content_is_refused_whatever_its_checksum(sound, wrong):
    edit, reason = WRONG[wrong]
    tried = 0
    for content in sound:
        arrays, description = decode(content)
        try:
            edit(arrays, description["state"])
        except (KeyError, ZeroDivisionError):  # a model of another kind
            continue
        refused(arrays, description, reason)
        tried += 1
    assert tried


@pytest.mark.parametrize("kind", [TGGMRegressor, TGGMClassifier])
def test_a_file_describes_what_was_fitted(kind):
    model = as_if_fitted(kind(hidden=(3, 2), n_members=2), 2, 2).set_params(
        hidden=7, n_members=9, deep="undirected", sigma0=3.0
    )
    again = parse_model(model_file(model), "it").model
    assert (again.hidden, again.n_members, again.deep) == ((3, 2), 2, "directed")
    assert again.sigma0 == pytest.approx(kind().sigma0, rel=1e-6)
    model.fitted_.model.hidden.W0[:] = 1e20
    with pytest.raises(ValueError, match=r"parameters reach 1e\+20"):
        model_file(model)
