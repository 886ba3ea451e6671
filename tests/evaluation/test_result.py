"""An evaluation as a frame, as a table and as a picture."""

from __future__ import annotations

import matplotlib as mpl
from numpy.testing import assert_allclose

from polycal import Evaluation
from polycal.evaluation import Figure
from tests.toys.evaluations import value

mpl.use("Agg")


def test_frame_table_and_picture(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["model", "rows", "metric", "value", "low", "high"]
    assert len(frame) == 2 * (6 + 2 * 4) + 3  # the forest trusts every row alike
    table = found.to_markdown()
    assert "| in distribution | error | ECE |" in table
    assert "| OCE | confidence | trusted | AUROC |" in table
    forest, line = (
        next(line for line in table.splitlines() if line.startswith(f"| {name}"))
        for name in ("forest", "polycal")
    )
    assert forest.endswith("| none |")
    assert f"{value(found, 'polycal', 'in distribution', 'error'):.3f}" in line
    figure = found.plot(metrics=["error", "oce"])
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in shown] == ["error", "OCE, noise", "OCE, inverted"]
    drawn = shown[0].lines[0].get_xdata()
    wanted = [value(found, m, "in distribution", "error") for m in ("forest", "polycal")]
    assert_allclose(drawn, wanted)


def test_a_bar_in_a_name_does_not_end_the_cell():
    found = Evaluation([Figure("a|b", "c|d", "error", 0.5, 0.4, 0.6)], 0.95)
    head, _, line = found.to_markdown().splitlines()
    assert head == r"| c\|d | error |"
    assert line == r"| a\|b | 0.500 (0.400 to 0.600) |"


def test_printed_and_in_a_notebook(found):
    shown = repr(found)
    first = shown.split("\n\n")[0].splitlines()
    assert first[0] == "in distribution"
    assert first[1].split() == ["forest", "polycal"]
    error = value(found, "polycal", "in distribution", "error")
    assert f"{error:.3f} (" in next(line for line in first if line.startswith("error"))
    assert shown.count("\n\n") == 3  # one table for each set of rows, and what brackets are
    assert all(len(line) < 100 for line in shown.splitlines())
    html = found._repr_html_()
    assert html.count("<table>") == 3
    assert "none" in html  # the forest has no trust weight


def test_names_are_escaped_in_a_notebook():
    figures = [Figure("<b>", "<i>", "error", 0.5, 0.4, 0.6)]
    html = Evaluation(figures, 0.95)._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
