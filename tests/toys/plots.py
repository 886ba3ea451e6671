"""A model with known probabilities, and where the texts of a figure are."""

from __future__ import annotations

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


class Slope:
    """P(class 1) is the first feature, clipped."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        p = np.clip(np.asarray(X)[:, 0], 0, 1)
        return np.column_stack([1 - p, p])


def texts_apart(figure):
    """No two visible texts of the figure overlap; returns the texts with their boxes."""
    figure.canvas.draw()
    # Tick labels outside the limits exist, but are not drawn.
    hidden = {
        id(label)
        for axis in figure.findobj(matplotlib.axis.Axis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    renderer = figure.canvas.get_renderer()
    boxes = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]
    shown = [
        (t, b) for t, b in boxes if not any(np.isnan(b.extents)) and b.width > 0 and b.height > 0
    ]
    for i, (text, box) in enumerate(shown):
        for other, box2 in shown[i + 1 :]:
            inner = matplotlib.transforms.Bbox.intersection(box, box2)
            assert inner is None or inner.width < 1 or inner.height < 1, (text, other)
    return shown


def inside(figure, words):
    """The named texts are drawn, and not cut by the figure's edge."""
    shown = dict(texts_apart(figure))
    for word in words:
        (box,) = [box for text, box in shown.items() if word in text]
        assert box.x0 >= -1, word
        assert box.y0 >= -1, word
        assert box.x1 <= figure.bbox.width + 1, word
        assert box.y1 <= figure.bbox.height + 1, word
