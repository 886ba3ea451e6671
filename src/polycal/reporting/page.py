"""The page: HTML sections, the style, the script, and the rows as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from .._utils.tables import html_table
from ..evaluation import INSIDE, TITLES
from ..plotting import DistanceDisplay
from .charts import answered_chart, distance_chart, reliability_chart, trust_chart
from .classes import SHARES
from .findings import OOD, Findings, RowSet
from .words import summary, verdict

SHOWN = 10  # features in the list of the most surprising ones
CHARTS = 6  # classes with a chart of their own
MOST_CLASSES = 12  # in a confusion matrix


def page(found: Findings, title: str) -> str:
    """The HTML page, which loads nothing from the network."""
    statements = verdict(found)
    findings = "".join(
        f'<li class="{s.grade}"><strong><span class="mark">{s.grade}</span> {escape(s.head)}.'
        f"</strong> {escape(s.text)}</li>"
        for s in statements
    )
    sections = [
        section("verdict", "Verdict", f"<p>{summary(statements)}</p><ul>{findings}</ul>"),
        section("inside", "Inside the data", _inside(found)),
        section("classes", "Class by class", _classes(found)),
        section("answered", "Answering fewer rows", _answered(found)),
        section("distance", "With distance", _distance(found)),
    ]
    if found.trust is not None:
        sections.append(section("outside", "Out of distribution", _outside(found)))
    sections += [
        section("features", "Surprising features", _features(found)),
        section("rows", "Row by row", _rows(found)),
        section("model", "The model", _facts(found)),
    ]
    return document(title, sections, json.dumps(_data(found), allow_nan=False), "page.js")


def document(
    title: str, sections: Sequence[tuple[str, str, str]], data: str = "", script: str = ""
) -> str:
    """A page of sections (key, name, HTML) that loads nothing; ``script`` is a file beside this."""
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name, _ in sections)
    body = "".join(text for *_, text in sections)
    here = files(__package__)
    style = here.joinpath("page.css").read_text("utf-8")
    made = f"polycal {version('polycal')}, {datetime.now(UTC):%Y-%m-%d}"
    if script:
        # Without "<", no name of a label or feature can end the script element.
        data = data.replace("<", "\\u003c")
        code = here.joinpath(script).read_text("utf-8")
        script = f"""<script type="application/json" id="data">{data}</script>
<script>{code}</script>
"""
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p class="made">{made}</p>
<nav aria-label="Sections">{links}</nav></header>
<main>{body}</main>
{script}</body>
</html>
"""


def section(key: str, name: str, text: str) -> tuple[str, str, str]:
    return key, name, f'<section id="{key}"><h2>{name}</h2>{text}</section>'


def _inside(found: Findings) -> str:
    display = found.reliability["polycal"]
    chart = reliability_chart(
        display.bin_edges,
        display.counts,
        display.accuracy,
        display.lower,
        display.upper,
        display.confidence,
    )
    lines = [
        [f"{low:.1f} to {high:.1f}", f"{n:.0f}", f"{c:.3f}", f"{a:.3f}"]
        for low, high, n, c, a in zip(
            display.bin_edges[:-1],
            display.bin_edges[1:],
            display.counts,
            display.confidence,
            display.accuracy,
            strict=True,
        )
        if n
    ]
    return (
        "<p>Bars show how often the model is right among rows of similar confidence; on the dashed "
        "line confidence and accuracy are equal. Whiskers are 95 % intervals.</p>"
        f"<div class=pair><figure>{chart}</figure>{_figures(found, INSIDE)}</div>"
        + details(
            "Numbers of the picture",
            scrolled(["confidence", "rows", "mean confidence", "share right"], lines),
        )
    )


def _classes(found: Findings) -> str:
    """Reliability of each class, and which classes are taken for which."""
    names, known = found.classes, found.by_class.classes
    lines = [
        [
            name,
            f"{one.n_rows:,}",
            "none" if np.isnan(one.found) else f"{one.found:.1%}",
            f"{one.mean:.3f}",
            f"{one.share:.3f}",
            f"{one.error:.3f}",
        ]
        for name, one in zip(names, known, strict=True)
    ]
    heads = ["class", "test rows", "found", "mean probability", "share of the rows", "ECE"]
    worst = sorted(range(len(known)), key=lambda k: -known[k].error)[:CHARTS]
    charts = "".join(
        "<figure>"
        + reliability_chart(
            known[k].edges,
            known[k].counts,
            known[k].accuracy,
            known[k].lower,
            known[k].upper,
            known[k].confidence,
            names[k],
        )
        + "</figure>"
        for k in sorted(worst)
    )
    shown = "each class" if len(worst) == len(known) else f"the {CHARTS} classes of highest ECE"
    return (
        "<p>Found is the share of the rows of a class that is predicted as that class. Where mean "
        "probability and share of the rows are equal, the class is neither over- nor "
        f"underestimated on the whole.</p>{scrolled(heads, lines)}"
        f"<h3>Which class is taken for which</h3>{_confusion(found)}"
        + details(f"Reliability of {shown}", f'<div class="pair">{charts}</div>')
    )


def _confusion(found: Findings) -> str:
    """The confusion matrix, or the most common mistakes where there are many classes."""
    names, report = found.classes, found.by_class
    if len(names) > MOST_CLASSES:
        common = report.common_mistakes(MOST_CLASSES)
        lines = [[names[y], names[guess], f"{n:,}"] for y, guess, n in common]
        if not lines:
            return "<p>No row is predicted wrong.</p>"
        return scrolled(["true class", "predicted as", "rows"], lines)
    lines = [
        [f"<strong>{escape(name)}</strong>"]
        + [f"<strong>{n:,}</strong>" if k == j else f"{n:,}" for j, n in enumerate(row)]
        for k, (name, row) in enumerate(zip(names, report.confusion.tolist(), strict=True))
    ]
    return scrolled(["true class", *(f"predicted {name}" for name in names)], lines, safe=True)


def _answered(found: Findings) -> str:
    curves = found.by_class.answered
    chart = answered_chart(SHARES, curves)
    places = [int(np.argmin(np.abs(SHARES - share))) for share in (1.0, 0.9, 0.8, 0.5, 0.2)]
    lines = [
        [f"{SHARES[i]:.0%}", f"{curves['polycal'][i]:.3f}", f"{curves['parent'][i]:.3f}"]
        for i in places
    ]
    return (
        "<p>If only the rows of highest confidence are answered and the others are left to a "
        "person, how often is the answer right?</p>"
        f"<div class=pair><figure>{chart}{_legend('polycal', 'parent')}</figure>"
        f"{scrolled(['rows answered', 'polycal', 'parent'], lines)}</div>"
    )


def _distance(found: Findings) -> str:
    display = found.distance
    if not isinstance(display, DistanceDisplay):
        return f"<p>Not tried. {escape(display)}</p>"
    chart = distance_chart(display.distance, display.confidence, found.priors.max())
    ours, parents = display.confidence["polycal"], display.confidence["parent"]
    lines = [
        [f"{d:.1f}", f"{a:.3f}", f"{b:.3f}"]
        for d, a, b in zip(display.distance, ours, parents, strict=True)
    ]
    return (
        "<p>Random points on spheres around the mean of the test rows, each feature in units of "
        "its own spread; categories are those of real rows. Far away, the confidence should be the "
        f"largest prior.</p><figure>{chart}{_legend('polycal', 'parent')}</figure>"
        + details("Numbers of the picture", scrolled(["distance", "polycal", "parent"], lines))
    )


def _outside(found: Findings) -> str:
    trust = found.trust
    assert trust is not None
    chart = trust_chart(trust.bin_edges, trust.id_share, trust.ood_share)
    return (
        f"<p>{trust.id_trusted:.1%} of the test rows and {trust.ood_trusted:.1%} of the rows out "
        "of distribution have a trust weight above one half: there the answer is more the "
        "model's than the prior's.</p>"
        f"<div class=pair><figure>{chart}{_legend('test rows', 'out of distribution')}</figure>"
        f"{_figures(found, OOD)}</div>"
    )


def _features(found: Findings) -> str:
    """Mean surprise of each feature in the least trusted rows, beside that of all test rows."""
    usual = np.median(found.sets[0].why.surprise, axis=0)
    parts = [
        "<p>For the least trusted rows of each set: how surprising each feature is compared with "
        "the nearest training rows (mean of half a squared distance in bandwidths, or of the log "
        "share of a category), and its median over all test rows.</p>"
    ]
    for rows in found.sets:
        least = rows.least_trusted()
        surprise = np.minimum(rows.why.surprise[least], 1e9).mean(axis=0)
        order = np.argsort(-(surprise - usual), kind="stable")[:SHOWN]
        longest = max(float(np.log1p(surprise[order]).max(initial=0.0)), 1e-9)
        lines = [
            [
                escape(rows.why.features[j]),
                f'<span class="meter"><span style="width:{np.log1p(surprise[j]) / longest:.1%}">'
                f"</span></span>{surprise[j]:.3g}",
                f"{usual[j]:.3g}",
            ]
            for j in order
        ]
        name = f"{len(least)} least trusted of the {len(rows.why):,} {rows.name} rows"
        table = scrolled(["feature", "mean surprise (bar: log scale)", "usual"], lines, safe=True)
        parts.append(f"<h3>{escape(name)}</h3>{table}")
    return "".join(parts)


def _rows(found: Findings) -> str:
    total = sum(len(rows.why) for rows in found.sets)
    shown = sum(len(rows.detail) for rows in found.sets)
    text = (
        f"All {total:,} rows."
        if shown == total
        else f"{shown:,} of {total:,} rows: of each set the least trusted half and a random half."
    )
    heads = [
        ("row", "row"),
        ("set", "set"),
        ("label", "label"),
        ("prediction", "prediction"),
        ("confidence", "confidence"),
        ("parent", "parent's"),
        ("weight", "trust"),
        ("verdict", "verdict"),
        ("feature", "most surprising"),
    ]
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button" data-key="{key}">{name}'
        '<span class="arrow" aria-hidden="true"></span></button></th>'
        for key, name in heads
    )
    return (
        f"<p>{text} Click a heading to sort, a row to look at it; with the keyboard, Tab to the "
        "table, arrow keys to move, Enter to choose.</p>"
        '<div class="filters"><label>Show <select id="filter"><option value="">all verdicts'
        "</option><option>in distribution</option><option>edge</option><option>out</option>"
        '<option value="wrong">wrong predictions</option></select></label>'
        '<span id="count" role="status"></span></div>'
        '<div class="scroll"><table id="table" role="grid" aria-label="Rows"><thead><tr>'
        f"{head}</tr></thead><tbody></tbody></table></div>"
        '<div id="detail" aria-live="polite"></div>'
        "<noscript><p>Sorting and choosing rows need JavaScript.</p></noscript>"
    )


def _facts(found: Findings) -> str:
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in found.facts.items())
    return f"<dl>{items}</dl>"


def _figures(found: Findings, rows: str) -> str:
    """The figures of polycal and the parent on one set of rows."""
    metrics = list(dict.fromkeys(f.metric for f in found.evaluation.figures if f.rows == rows))
    known = {(f.model, f.metric): f for f in found.evaluation.figures if f.rows == rows}
    lines = []
    for metric in metrics:
        cells = []
        for model in ("polycal", "parent"):
            f = known.get((model, metric))
            there = f is not None and not np.isnan(f.value)
            cells.append(f"{f.value:.3f} ({f.low:.3f} to {f.high:.3f})" if f and there else "none")
        lines.append([TITLES[metric], *cells])
    level = f"{found.evaluation.level:.0%} interval"
    return scrolled(["", f"polycal ({level})", "parent"], lines)


def _data(found: Findings) -> dict[str, Any]:
    """The data of the script: classes and rows."""
    return {
        "classes": found.classes,
        "rows": [_with_set(rows, i) for rows in found.sets for i in range(len(rows.detail))],
    }


def _with_set(rows: RowSet, i: int) -> dict[str, Any]:
    return {"set": rows.name, **rows.detail[i]}


def _legend(*names: str) -> str:
    items = "".join(
        f'<span><i class="key {style}"></i>{escape(name)}</span>'
        for name, style in zip(names, "ab", strict=True)
    )
    return f'<figcaption class="legend">{items}</figcaption>'


def scrolled(heads: Sequence[str], lines: Sequence[Sequence[str]], safe: bool = False) -> str:
    """An HTML table that scrolls where it is too wide; with ``safe`` the cells are HTML already."""
    return f'<div class="scroll">{html_table(heads, lines, safe=safe)}</div>'


def details(name: str, text: str) -> str:
    return f"<details><summary>{name}</summary>{text}</details>"
