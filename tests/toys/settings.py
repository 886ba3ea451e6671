"""Settings of a calibrator, one for each of its options."""

from __future__ import annotations

from polycal import PAPER

SETTINGS = {
    "default": {},
    "paper": PAPER,
    "kernel": {"posterior": "kernel"},
    "parent": {"posterior": "parent"},
    "gaussian gate": {"gate": "gaussian"},
    "polytope bandwidth": {"bandwidth": "polytope"},
    "euclidean": {"distance": "euclidean"},
    "ece": {"scoring": "ece"},
}
