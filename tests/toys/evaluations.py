"""One figure of an evaluation."""

from __future__ import annotations


def value(found, model, rows, metric):
    (figure,) = [f for f in found.figures if f[:3] == (model, rows, metric)]
    return figure.value
