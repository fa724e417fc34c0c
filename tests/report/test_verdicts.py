"""What a report says in words, and pictures that must stay readable."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tggm.graph import Graph
from tggm.plotting import plot_graph
from tggm.report._page import picture
from tggm.report._sections import confidence_verdict, coverage_verdict


def test_intervals_that_are_off_are_called_so():
    assert "are calibrated" in coverage_verdict(0.9, 0.87, 100)  # two standard errors are 0.06
    assert "too narrow: only 80 %" in coverage_verdict(0.9, 0.8, 100)
    assert "wider than necessary: 99 %" in coverage_verdict(0.9, 0.99, 100)


def test_probabilities_that_are_off_are_called_so():
    sure = np.full(100, 0.9)
    for count, words in ((90, "are calibrated"), (70, "overconfident"), (100, "underconfident")):
        assert words in confidence_verdict(sure, np.arange(100) < count)


def test_long_numbers_below_an_axis_do_not_touch():
    kept = []

    def draw(ax):
        ax.plot([10_000_000, 94_000_000], [0, 1])
        ax.ticklabel_format(style="plain")
        kept.append(ax)

    picture(draw, name="p", alt="a", size=(3.2, 3.0))
    boxes = [label.get_window_extent() for label in kept[0].get_xticklabels() if label.get_text()]
    shown = sorted((box.x0, box.x1) for box in boxes)
    assert len(shown) > 2
    assert all(left[1] < right[0] for left, right in pairwise(shown))


def test_the_head_of_an_arrow_is_outside_its_box():
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(4.7, 1.7), layout="constrained")
        ax = figure.add_subplot()
        graph = Graph().input("x", 100).latent("h", 100).observed("y", 1)
        plot_graph(graph.connect("x", "h").connect("h", "y"), ax=ax)
        figure.canvas.draw()
        boxes = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
        for arrow in ax.patches:
            ends = arrow.get_path().transformed(arrow.get_transform()).vertices
            right = ends[ends[:, 0].argmax()]
            assert not any(box.padded(-1).contains(*right) for box in boxes)
