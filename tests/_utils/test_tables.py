from __future__ import annotations

from polycal._utils.tables import LINE, facts_table, html_table, text_table


def test_columns_are_as_wide_as_their_longest_cell():
    shown = text_table(["a", "long head"], [["cell", "x"], ["", "yy"]])
    assert shown.splitlines() == ["a     long head", "----  ---------", "cell  x", "      yy"]


def test_a_table_without_lines_has_its_heads():
    assert text_table(["a", "b"], []) == "a  b\n-  -"


def test_long_facts_continue_below_themselves():
    shown = facts_table({"name": "word " * 40, "b": ""}).splitlines()
    assert all(len(line) <= LINE for line in shown)
    assert shown[0].startswith("name  word")
    assert shown[1].startswith("      word")
    assert shown[-1].split() == ["b"]


def test_cells_of_html_are_escaped_unless_they_are_safe():
    assert "<td>&lt;b&gt;</td>" in html_table(["<"], [["<b>"]])
    assert '<th scope="col">&lt;</th>' in html_table(["<"], [["<b>"]])
    assert "<td><b></td>" in html_table(["x"], [["<b>"]], safe=True)
