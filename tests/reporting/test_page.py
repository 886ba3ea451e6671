"""The page of the report in a real browser."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.toys.reports import NASTY, SECTIONS, embedded


def column(page, place):
    return page.locator(f"#table tbody td:nth-child({place})").all_inner_texts()


def test_sections_and_names_that_are_markup(visit):
    page = visit()
    assert page.locator("section").evaluate_all("nodes => nodes.map(n => n.id)") == SECTIONS
    assert page.locator("svg").count() == 7
    assert page.evaluate("window.broken") is None
    assert page.locator("main b, main i:not(.key)").count() == 0
    assert NASTY in page.locator("#features").inner_text()


def test_a_long_name_leaves_room_for_its_number(visit):
    page = visit()
    width = page.locator("#features td:first-child").evaluate_all(
        "cells => Math.max(...cells.map(c => c.getBoundingClientRect().width))"
    )
    assert width <= 321  # 20 rem


def test_sorting(visit):
    page = visit()
    weight = [float(v) for v in column(page, 7)]
    assert weight == sorted(weight)
    page.click("button[data-key=confidence]")
    up = [float(v) for v in column(page, 5)]
    assert up == sorted(up)
    head = page.locator("th", has=page.locator("button[data-key=confidence]"))
    assert head.get_attribute("aria-sort") == "ascending"
    page.click("button[data-key=confidence]")
    down = [float(v) for v in column(page, 5)]
    assert down == sorted(up, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    page.click("button[data-key=row]")
    assert [int(v) for v in column(page, 1)] == sorted(int(v) for v in column(page, 1))
    page.click("button[data-key=verdict]")
    order = ["out", "edge", "in distribution"]
    places = [order.index(v) for v in column(page, 8)]
    assert places == sorted(places)


def test_filter(visit):
    page = visit()
    total = page.locator("#table tbody tr").count()
    page.select_option("#filter", "out")
    assert set(column(page, 8)) == {"out"}
    n = page.locator("#table tbody tr").count()
    assert page.inner_text("#count") == f"{n} of {total} rows"
    page.select_option("#filter", "wrong")
    assert all("(wrong)" in text for text in column(page, 4))


def test_choosing_a_row_by_click(visit, page_path):
    page = visit()
    page.click("button[data-key=row]")
    chosen = page.locator("#table tbody tr").nth(5)
    chosen.click()
    assert chosen.get_attribute("aria-selected") == "true"
    grid = page.get_by_role("grid", name="Rows")  # a row of a plain table cannot be selected
    assert grid.get_by_role("row", selected=True).count() == 1
    row = embedded(page_path)["rows"][int(chosen.get_attribute("data-id"))]
    text = page.inner_text("#detail")
    assert text.startswith(f"Row {row['row']} of {row['set']}")
    for near in row["near"]:
        assert ", ".join(map(str, near["rows"])) in text
    for feature in row["features"]:
        assert feature["name"] in text
        assert feature["value"] in text


def test_keyboard_alone(visit):
    page = visit()
    for _ in range(40):  # Tab reaches the table
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TR":
            break
    first = page.evaluate("document.activeElement.dataset.id")
    page.keyboard.press("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.id")
    assert second != first
    before = page.inner_text("#detail")
    page.keyboard.press("Enter")
    assert page.locator(f'tr[data-id="{second}"]').get_attribute("aria-selected") == "true"
    assert page.inner_text("#detail") != before
    page.keyboard.press("End")
    last = page.locator("#table tbody tr").last.get_attribute("data-id")
    assert page.evaluate("document.activeElement.dataset.id") == last
    page.locator("button[data-key=label]").focus()
    page.keyboard.press("Enter")
    assert column(page, 3) == sorted(column(page, 3))


def test_on_a_phone(visit, tmp_path):
    page = visit(width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.locator("svg text").evaluate_all(
        "nodes => Math.min(...nodes.map(n => n.getBoundingClientRect().height))"
    )
    assert small > 9
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    assert (tmp_path / "phone.png").stat().st_size > 20_000


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_light_and_dark(visit, scheme, dark):
    page = visit(scheme=scheme)
    for selector, name in (("body", "backgroundColor"), ("svg text.tick", "fill")):
        text = page.locator(selector).first.evaluate(f"n => getComputedStyle(n).{name}")
        lightness = np.mean([int(v) for v in re.findall(r"\d+", text)[:3]])
        assert (lightness < 128) == (dark if selector == "body" else not dark)
