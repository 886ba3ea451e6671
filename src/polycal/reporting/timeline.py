"""The page of a history: shift, accuracy and features over the days."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape

from ..monitoring.history import Day, History, first_rung
from .charts import Chart
from .page import details, document, scrolled, section
from .words import BAD, CAREFUL, GOOD, Statement

# Names below the axis of time, and days in the tables.
TICKS, SHOWN = 4, 400
TICK_LENGTH = 12
# Features in the table of features.
FEATURES = 12
# Ends of the axis of evidence, in powers of ten, and the names of its ticks.
LEAST, MOST = -4, 12
POWERS = {
    -4: "0.0001", -2: "0.01", 0: "1", 2: "100", 4: "10⁴", 6: "10⁶", 8: "10⁸", 10: "10¹⁰", 12: "10¹²"
}  # fmt: skip
Value = Callable[[Day], float | None]


def timeline(history: History, title: str) -> str:
    """The HTML page, which loads nothing."""
    days = history.days
    statements = verdict(history)
    lines = "".join(
        f'<li class="{s.grade}"><strong><span class="mark">{s.grade}</span> {escape(s.head)}.'
        f"</strong> {escape(s.text)}</li>"
        for s in statements
    )
    sections = [section("verdict", "Verdict", f"<ul>{lines}</ul>")]
    if days:
        sections += [
            section("shift", "Has the data shifted?", _shift(history)),
            section("accuracy", "How right is it?", _accuracy(days)),
            section("features", "Which features?", _features(days)),
            section("days", "Day by day", _days(days)),
        ]
    return document(title, sections)


def verdict(history: History) -> list[Statement]:
    """Statements on the last day, on the stream, and on the accuracy."""
    days = history.days
    if not days:
        return [Statement(CAREFUL, "No day was checked yet", "The folder holds no tables.")]
    return [_last_day(days), _stream(history), _rightness(days)]


def _last_day(days: Sequence[Day]) -> Statement:
    last = days[-1]
    alarms = sum(day.alarm for day in days)
    text = (
        f"p = {last.p_value:.3g}; {last.share_new:.1%} of {last.n_rows:,} rows are new "
        f"({last.share_new_low:.1%} to {last.share_new_high:.1%}), {last.share_out:.1%} out. "
        f"{alarms} of {len(days)} days raised an alarm"
    )
    first = next((day.name for day in days if day.alarm), last.name)
    text += "." if first == last.name else f", the first of them {first}."
    if last.alarm:
        moved = f" Features that have moved: {', '.join(last.features)}." if last.features else ""
        return Statement(BAD, f"{last.name} is not like the calibration rows", text + moved)
    head = f"{last.name} is like the calibration rows"
    return Statement(CAREFUL if alarms else GOOD, head, text)


def _stream(history: History) -> Statement:
    days, monitor = history.days, history.monitor
    first = first_rung(days)
    if first is None:
        text = (
            f"Evidence {days[-1].evidence:.2g}, where 1 is an alarm, after {monitor.n_rows:,} "
            f"rows. It ever rings in vain with probability at most {monitor.delta:.0%}."
        )
        return Statement(GOOD, "All days together are like the calibration rows", text)
    text = (
        f"The alarm rang on {first.name}, after row {monitor.alarm_row:,} of all; most of the "
        f"evidence was in {first.stream_behind}. It ever rings in vain with probability at most "
        f"{monitor.delta:.0%}."
    )
    return Statement(BAD, "The stream has changed", text)


def _rightness(days: Sequence[Day]) -> Statement:
    known = [day for day in days if day.accuracy is not None]
    labelled = [day for day in days if day.realised is not None]
    if not known:
        return Statement(
            BAD, "Nothing is known about the accuracy", "All rows of all days are out."
        )
    last = known[-1]
    text = (
        f"{last.accuracy:.1%} of the rows of {last.name} that are not out are expected to be right "
        f"({last.accuracy_low:.1%} to {last.accuracy_high:.1%})."
    )
    if not labelled:
        text += " No labels have come."
        return Statement(CAREFUL, "The accuracy is expected, and not checked by labels", text)
    worse = [day for day in labelled if day.contradicted]
    latest = labelled[-1]
    text += f" With labels: {latest.realised:.1%} on {latest.name}."
    if worse:
        head = f"Labels contradict what was expected on {len(worse)} of {len(labelled)} days"
        day = worse[-1]
        expected = "" if day.accuracy is None else f", where {day.accuracy:.1%} was expected"
        text = (
            f"The last of them is {day.name}: {day.realised:.1%} right{expected}. Rows that look "
            "the same have other classes now, or the labels are wrong; do not rely on the expected "
            "accuracy until this is known."
        )
        return Statement(BAD, head, text)
    return Statement(GOOD, "Labels agree with what was expected", text)


def _shift(history: History) -> str:
    days = history.days
    return (
        "<p>The share of rows that are new, beyond those that are expected to look unusual, with "
        "its interval (orange: an alarm); the share of rows that are out of distribution, where "
        "the answer is the class priors; and the evidence of all days together against an "
        "unchanged stream, which rings at 1, the red line (below 0.0001 and above 10¹² it is drawn "
        "at these ends).</p>"
        f'<div class="pair"><figure>{_new_chart(days)}</figure><figure>{_out_chart(days)}</figure>'
        f"<figure>{_evidence_chart(days)}</figure></div>"
    )


def _new_chart(days: Sequence[Day]) -> str:
    top = _round_up(max(day.share_new_high for day in days))
    chart = _over_time("Share of new rows by day, with intervals", days, top, "share of new rows")
    _line(chart, days, lambda d: d.share_new, lambda d: d.share_new_low, lambda d: d.share_new_high)
    alarms = [k for k, day in enumerate(days) if day.alarm]
    chart.dots(alarms, [days[k].share_new for k in alarms], "dot b alarm")
    return chart.svg(_ticks(days), _up_to(top))


def _evidence_chart(days: Sequence[Day]) -> str:
    """Evidence on a scale of powers of ten; what is beyond its ends is drawn there."""
    height = [math.log10(min(max(day.evidence, 10.0**LEAST), 10.0**MOST)) for day in days]
    high = max(2.0, math.ceil(max(height)))
    end = max(len(days) - 1, 1)
    chart = Chart(
        "Evidence against an unchanged stream by day",
        (-0.5, end + 0.5), (LEAST, high), "day", "evidence",
    )  # fmt: skip
    chart.line([-0.5, end + 0.5], [0.0, 0.0], "rule")
    chart.line(range(len(days)), height, "line a")
    chart.dots(range(len(days)), height, "dot a")
    chart.text(-0.4, 0.0 + 0.02 * (high - LEAST), "alarm")
    return chart.svg(_ticks(days), {t: name for t, name in POWERS.items() if t <= high})


def _out_chart(days: Sequence[Day]) -> str:
    top = _round_up(max(day.share_out for day in days))
    chart = _over_time("Share of rows out of distribution by day", days, top, "share of rows out")
    _line(chart, days, lambda d: d.share_out)
    return chart.svg(_ticks(days), _up_to(top))


def _accuracy(days: Sequence[Day]) -> str:
    known = [d for day in days for d in (day.accuracy_low, day.realised) if d is not None]
    low = math.floor(10 * min(known, default=0.0)) / 10
    low = min(low, 0.9)
    chart = _over_time("Expected and realised accuracy by day", days, 1.0, "accuracy", low)
    _line(chart, days, lambda d: d.accuracy, lambda d: d.accuracy_low, lambda d: d.accuracy_high)
    places = [k for k, day in enumerate(days) if day.realised is not None]
    chart.dots(places, [days[k].realised or 0.0 for k in places], "dot b")
    ticks = [t / 10 for t in range(round(10 * low), 11, 1 if low > 0.4 else 2)]
    key = '<i class="key {}"></i>{}'
    legend = "".join(
        f"<span>{key.format(style, name)}</span>"
        for style, name in (("a", "expected, without labels"), ("b", "realised, by labels"))
    )
    return (
        "<p>Of the rows that are not out: the accuracy that the calibrated probabilities promise, "
        "with an interval of 95 %, and that by labels where they have come.</p>"
        f'<figure>{chart.svg(_ticks(days), ticks)}<figcaption class="legend">{legend}</figcaption>'
        "</figure>"
    )


def _features(days: Sequence[Day]) -> str:
    """How often each feature has moved, and how far it is on the last such day."""
    often = Counter(name for day in days for name in day.features)
    if not often:
        return "<p>No feature has moved on any day.</p>"
    lines = []
    for name, n in often.most_common(FEATURES):
        last = next(day for day in reversed(days) if name in day.features)
        farthest = max(day.features.get(name, 0.0) for day in days)
        lines.append(
            [
                escape(name),
                f"{n} of {len(days)}",
                escape(last.name),
                f'<span class="meter"><span style="width:{last.features[name]:.1%}"></span></span>'
                f"{last.features[name]:.2f}",
                f"{farthest:.2f}",
            ]
        )
    heads = ["feature", "days", "last moved on", "distance there", "farthest"]
    return (
        "<p>Features that have surely moved, by the number of days. The distance is the largest "
        "difference of a share between the rows of the day and the calibration rows, from 0 to 1."
        f"</p>{scrolled(heads, lines, safe=True)}"
    )


def _days(days: Sequence[Day]) -> str:
    heads = ["day", "rows", "shift", "p-value", "new", "out", "accuracy", "realised", "features"]
    lines = [
        [
            day.name,
            f"{day.n_rows:,}",
            "alarm" if day.alarm else "none seen",
            f"{day.p_value:.3g}",
            f"{day.share_new:.1%}",
            f"{day.share_out:.1%}",
            _percent(day.accuracy),
            _percent(day.realised),
            ", ".join(day.features),
        ]
        for day in reversed(days[-SHOWN:])
    ]
    text = scrolled(heads, lines)
    return text if len(days) <= SHOWN else details(f"The last {SHOWN} of {len(days)} days", text)


def _over_time(label: str, days: Sequence[Day], top: float, name: str, low: float = 0.0) -> Chart:
    return Chart(label, (-0.5, max(len(days) - 1, 1) + 0.5), (low, top), "day", name)


def _line(
    chart: Chart, days: Sequence[Day], value: Value, low: Value | None = None,
    high: Value | None = None,
) -> None:  # fmt: skip
    """A line with dots through the days that have a value, and a band around it."""
    known = [k for k, day in enumerate(days) if value(day) is not None]

    def of(get: Value) -> list[float]:
        return [min(max(get(days[k]) or 0.0, chart.y[0]), chart.y[1]) for k in known]

    if not known:
        return
    if low is not None and high is not None:
        ends = [min(known) - 0.3, max(known) + 0.3] if len(known) == 1 else []
        xs: list[float] = ends or [float(k) for k in known]
        repeat = len(xs) // len(known)
        chart.band(xs, of(low) * repeat, of(high) * repeat)
    chart.line(known, of(value), "line a")
    chart.dots(known, of(value), "dot a")


def _ticks(days: Sequence[Day]) -> dict[float, str]:
    """Some days with their names, without the end of the file's."""
    step = max(1, math.ceil(len(days) / TICKS))
    return {float(k): _short(days[k].name) for k in range(0, len(days), step)}


def _short(name: str) -> str:
    stem = name.split(".")[0]
    return stem if len(stem) <= TICK_LENGTH else f"…{stem[1 - TICK_LENGTH :]}"


def _round_up(value: float) -> float:
    return next(top for top in (0.05, 0.1, 0.2, 0.5, 1.0) if value <= top or top == 1.0)


def _up_to(top: float) -> Iterable[float]:
    return [round(top * k / 5, 4) for k in range(6)]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
