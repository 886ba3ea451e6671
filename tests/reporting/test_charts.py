"""Charts of the report: data to pixels by hand, and each mark shows its number."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from polycal.reporting.charts import Chart, distance_chart, reliability_chart, trust_chart

# Pixels of the axes: x from 52 to 440 - 14, y from 290 - 46 up to 14.
LEFT, RIGHT, FLOOR, CEILING = 52.0, 426.0, 244.0, 14.0


def marks(svg, tag, style):
    return [node for node in ET.fromstring(svg).iter(tag) if node.get("class") == style]


def points(node):
    return np.array([pair.split(",") for pair in node.get("points").split()], dtype=float)


def test_axes_by_hand():
    chart = Chart("label", (-1, 3), (0, 10), "across", "up")
    assert [chart.px(x) for x in (-1, 1, 3)] == [LEFT, (LEFT + RIGHT) / 2, RIGHT]
    assert [chart.py(y) for y in (0, 5, 10)] == [FLOOR, (FLOOR + CEILING) / 2, CEILING]


def test_a_bar_by_hand():
    chart = Chart("label", (0, 1), (0, 1), "across", "up")
    chart.bar(0.5, 1, 0.5, "bar")
    (bar,) = marks(chart.svg([], []), "rect", "bar")
    found = [float(bar.get(key)) for key in ("x", "y", "width", "height")]
    assert found == [239.0, 129.0, 187.0, 115.0]


def test_words_that_are_markup_stay_words():
    chart = Chart('a "b" <c>', (0, 1), (0, 1), "<x>", "<y> & z")
    chart.text(0, 0, "<b>note</b>")
    root = ET.fromstring(chart.svg([0, 1], [0]))
    assert root.get("aria-label") == 'a "b" <c>'
    texts = [node.text for node in root.iter("text")]
    assert texts == ["0", "0", "1", "<b>note</b>", "<x>", "<y> & z"]


def test_reliability_shows_bins_with_rows_only():
    svg = reliability_chart(
        np.array([0, 0.5, 1]),
        np.array([0, 4]),
        np.array([np.nan, 0.75]),
        np.array([np.nan, 0.25]),
        np.array([np.nan, 1.0]),
        np.array([np.nan, 0.9]),
    )
    assert "nan" not in svg
    (bar,) = marks(svg, "rect", "bar a faint")
    assert float(bar.get("height")) == pytest.approx(0.75 * (FLOOR - CEILING), abs=0.05)
    (dot,) = marks(svg, "circle", "dot a")
    assert float(dot.get("cx")) == pytest.approx(LEFT + 0.9 * (RIGHT - LEFT), abs=0.05)
    (whisker,) = marks(svg, "polyline", "whisker")
    np.testing.assert_allclose(points(whisker)[:, 1], [186.5, CEILING])


def test_distance_draws_both_models_and_the_prior():
    lines = {"polycal": np.array([1.0, 0.5, 0.5]), "parent": np.array([1.0, 1.0, 1.0])}
    svg = distance_chart(np.array([0.0, 1.0, 2.0]), lines, 0.5)
    (ours,) = marks(svg, "polyline", "line a")
    np.testing.assert_allclose(points(ours), [[52, 14], [239, 129], [426, 129]])
    (parent,) = marks(svg, "polyline", "line b")
    np.testing.assert_allclose(points(parent)[:, 1], CEILING)
    prior, end = marks(svg, "polyline", "reference")
    np.testing.assert_allclose(points(prior)[:, 1], 129)
    np.testing.assert_allclose(points(end)[:, 0], 239)
    # The note is on the other side of the prior than the parent's curve: lower on the page.
    (note,) = marks(svg, "text", "note end")
    assert float(note.get("y")) > 129


def test_trust_leaves_out_empty_bars():
    svg = trust_chart(np.array([0, 0.5, 1]), np.array([0.0, 1.0]), np.array([0.25, 0.75]))
    (inside,) = marks(svg, "rect", "bar a")
    assert float(inside.get("height")) == FLOOR - CEILING
    outside = [float(bar.get("height")) for bar in marks(svg, "rect", "bar b")]
    assert outside == [57.5, 172.5]
    assert 'aria-label="Trust weight of test rows' in svg
