"""The page of benchmarks: what it says is what is stored, and the cost model counts what XLA counts."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    """Scripts of the folder can be imported, and are forgotten again."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


@pytest.mark.usefixtures("scripts")
def test_pages_show_the_stored_figures():
    import render
    from ratios import stored

    figures = stored(BENCHMARKS / "results")
    for name in render.PAGES:
        page = (render.ROOT / name).read_text()
        assert render.rendered(page, name, figures) == page, f"run: python benchmarks/render.py ({name})"


@pytest.mark.usefixtures("scripts")
def test_every_source_of_ratios_is_stored_and_compared_by_name():
    from bench import page
    from ratios import SOURCES, ratios, stored

    figures = stored(BENCHMARKS / "results")
    rows = ratios(figures)
    assert set(SOURCES) <= set(figures)
    assert len({row.key for row in rows}) == len(rows)
    assert "<- changed" not in page(figures, figures)
    slower = {**figures, "predict_proba": figures["predict_proba"] | {"TGGMClassifier": 1e3}}
    assert page(slower, figures).count("<- changed") == 1


@pytest.mark.usefixtures("scripts")
def test_exponents_are_those_of_power_laws():
    from growth import exponent

    sizes = [2, 4, 8, 16]
    assert exponent(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("sizes", [{}, {"columns": 150, "units": 20}, {"units": 300}])
def test_the_cost_model_counts_what_xla_counts(sizes):
    from costs import Shape, counted_by_xla

    shape = Shape(**sizes)
    found = counted_by_xla(shape)
    assert shape.row_operations == pytest.approx(found["operations"], rel=0.1)
    assert shape.row_bytes == pytest.approx(found["bytes"], rel=0.3)


@pytest.mark.usefixtures("scripts")
def test_more_devices_compute_less_each_and_exchange_more():
    from costs import Machines, Shape, costs

    numbers = (1e13, 1e12, 1e-4, 1e-5, 1e11, 1e9)
    one, four = (costs(Shape(), Machines("", devices, *numbers)) for devices in (1, 4))
    assert four["computing"] == pytest.approx(one["computing"] / 4, rel=1e-6)
    assert one["exchanging"] == 0
    steps = np.ceil(1e9 / 65_536)
    parameters = 50 * 21 + 52
    ring = 2 * 3 / 4 * 4 * (parameters + 1) / 1e11  # three quarters of the sums, sent twice
    assert four["exchanging"] == pytest.approx(steps * (1e-5 + ring))


@pytest.mark.slow  # of a script; digits of engines: tests/inference
@pytest.mark.usefixtures("scripts")
def test_the_digits_of_engines_are_measured_against_double_precision(monkeypatch):
    import inference_gpu

    monkeypatch.setattr(inference_gpu, "MANY_OUTPUTS", (2,))
    found = inference_gpu.digits_section(0, rows=20, m=5)
    assert [entry["engine"] for entry in found] == ["mean_field", "ep"]
    assert all(entry["converged"] == 1 and 0 < entry["log_z_error"] < 1e-3 for entry in found)


@pytest.mark.usefixtures("scripts")
def test_the_floor_of_a_kernel_counts_its_operations():
    from inference_gpu import floors

    from tggm.inference import _gpu_kernel

    one, two = (floors(_gpu_kernel.mean_field_row, (np.int32(9),), steps, 1000, 100) for steps in (1, 2))
    assert one["memory_ms"] == two["memory_ms"] == pytest.approx(1e3 * 1000 * 303 * 4 / 4.3e12)
    more = two["arithmetic_ms"] - one["arithmetic_ms"]
    assert more == pytest.approx(1e3 * 1000 * 100 * one["operations_per_step"] / 67e12)
