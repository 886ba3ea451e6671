"""Small charts as SVG text, in the colours of the page (light or dark)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

import numpy as np

from .._utils.arrays import Floats

WIDTH, HEIGHT = 440, 290
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 46

# Places on an axis, some with their names.
Ticks = Iterable[float] | dict[float, str]


@dataclass
class Chart:
    """A chart: the axes, which map data to pixels, and the marks."""

    label: str  # text for screen readers
    x: tuple[float, float]
    y: tuple[float, float]
    x_title: str
    y_title: str
    marks: list[str] = field(default_factory=list)

    def px(self, value: float) -> float:
        low, high = self.x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def py(self, value: float) -> float:
        low, high = self.y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def line(self, xs: Iterable[float], ys: Iterable[float], style: str) -> None:
        points = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.marks.append(f'<polyline class="{style}" points="{points}"/>')

    def dots(self, xs: Iterable[float], ys: Iterable[float], style: str) -> None:
        self.marks += [
            f'<circle class="{style}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="4"/>'
            for x, y in zip(xs, ys, strict=True)
        ]

    def band(self, xs: Iterable[float], low: Iterable[float], high: Iterable[float]) -> None:
        """The area between two lines."""
        xs = list(xs)
        ends = [(x, y) for x, y in zip(xs, low, strict=True)]
        ends += [(x, y) for x, y in reversed(list(zip(xs, high, strict=True)))]
        points = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in ends)
        self.marks.append(f'<polygon class="band a" points="{points}"/>')

    def bar(self, left: float, right: float, top: float, style: str, bottom: float = 0.0) -> None:
        x, y = self.px(left), self.py(top)
        self.marks.append(
            f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{self.px(right) - x:.1f}" '
            f'height="{max(self.py(bottom) - y, 0):.1f}"/>'
        )

    def text(self, x: float, y: float, words: str, style: str = "note") -> None:
        point = f'x="{self.px(x):.1f}" y="{self.py(y):.1f}"'
        self.marks.append(f'<text class="{style}" {point}>{escape(words)}</text>')

    def svg(self, x_ticks: Ticks, y_ticks: Ticks) -> str:
        """The whole chart; ticks may have names."""
        names, y_names = (ticks if isinstance(ticks, dict) else {} for ticks in (x_ticks, y_ticks))
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.label)}">'
        ]
        floor, ceiling = HEIGHT - BOTTOM, TOP
        for tick in y_ticks:
            y = self.py(tick)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            name = escape(y_names.get(tick, f"{tick:g}"))
            parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{name}</text>')
        for tick in x_ticks:
            x = self.px(tick)
            parts.append(f'<path class="axis" d="M{x:.1f} {floor}v5"/>')
            parts.append(
                f'<text class="tick mid" x="{x:.1f}" y="{floor + 19}">'
                f"{escape(names.get(tick, f'{tick:g}'))}</text>"
            )
        parts.append(f'<path class="axis" d="M{LEFT} {ceiling}V{floor}H{WIDTH - RIGHT}"/>')
        parts += self.marks
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="title mid" x="{middle}" y="{HEIGHT - 6}">{escape(self.x_title)}</text>'
        )
        across = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(
            f'<text class="title mid" transform="translate(14 {across}) rotate(-90)">'
            f"{escape(self.y_title)}</text>"
        )
        return "".join([*parts, "</svg>"])


def reliability_chart(
    edges: Floats,
    counts: Floats,
    accuracy: Floats,
    lower: Floats,
    upper: Floats,
    confidence: Floats,
    of_class: str | None = None,
) -> str:
    """Accuracy bars with intervals against the diagonal, or those of one class."""
    names = ("confidence", "share that is right")
    label = "Accuracy against confidence, with a bar for each bin of confidence"
    if of_class is not None:
        names = (f"probability of {of_class}", f"share that is {of_class}")
        label = f"Share of {of_class} against its probability, with a bar for each bin"
    chart = Chart(label, (0, 1), (0, 1), *names)
    for b in np.flatnonzero(counts > 0):
        chart.bar(edges[b] + 0.006, edges[b + 1] - 0.006, accuracy[b], "bar a faint")
    chart.line([0, 1], [0, 1], "reference")
    for b in np.flatnonzero(counts > 0):
        chart.line([confidence[b]] * 2, [lower[b], upper[b]], "whisker")
        chart.dots([confidence[b]], [accuracy[b]], "dot a")
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
    return chart.svg(ticks, ticks)


def answered_chart(shares: Floats, lines: dict[str, Floats]) -> str:
    """Accuracy of each model against the share of rows that it answers."""
    lowest = min(float(values.min()) for values in lines.values())
    low = max(0.0, np.floor(lowest * 10) / 10 - (lowest > 0.9) * 0.1)
    chart = Chart(
        "Accuracy of polycal and of the parent among the rows that they are most sure of",
        (0, 1),
        (low, 1),
        "share of the rows that is answered",
        "share that is right",
    )
    for (_, values), style in zip(lines.items(), ("line a", "line b"), strict=True):
        chart.line(shares, values, style)
    ticks = [t / 10 for t in range(round(10 * low), 11, 1 if low > 0.4 else 2)]
    return chart.svg([0, 0.2, 0.4, 0.6, 0.8, 1], ticks)


def distance_chart(distance: Floats, lines: dict[str, Floats], prior: float) -> str:
    """Confidence of each model against distance."""
    chart = Chart(
        "Mean confidence of polycal and of the parent against distance from the data",
        (0, float(distance[-1])),
        (0, 1),
        "distance from the centre (farthest row = 1)",
        "mean confidence",
    )
    chart.line([0, distance[-1]], [prior, prior], "reference")
    chart.line([1, 1], [0, 1], "reference")
    # Above or below the line, so that the parent's curve does not cross it.
    beside = 0.03 if lines["parent"][-1] < prior else -0.06
    chart.text(distance[-1] * 0.99, max(prior + beside, 0.02), "largest prior", "note end")
    chart.text(1.04, 0.02, "end of the data", "note")
    for (_, values), style in zip(lines.items(), ("line a", "line b"), strict=True):
        chart.line(distance, values, style)
    return chart.svg(range(int(distance[-1]) + 1), [0, 0.2, 0.4, 0.6, 0.8, 1])


def trust_chart(edges: Floats, inside: Floats, outside: Floats) -> str:
    """Share of the rows of two sets by trust weight."""
    chart = Chart(
        "Trust weight of test rows and of out-of-distribution rows",
        (0, 1),
        (0, 1),
        "trust weight",
        "share of the rows",
    )
    for b in range(len(inside)):
        middle = (edges[b] + edges[b + 1]) / 2
        if inside[b]:
            chart.bar(edges[b] + 0.008, middle, inside[b], "bar a")
        if outside[b]:
            chart.bar(middle, edges[b + 1] - 0.008, outside[b], "bar b")
    return chart.svg([0, 0.2, 0.4, 0.6, 0.8, 1], [0, 0.2, 0.4, 0.6, 0.8, 1])
