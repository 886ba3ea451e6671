"""The displays that polycal.plotting offers."""

from __future__ import annotations

from polycal import plotting


def test_public_names():
    assert plotting.__all__ == [
        "AcceptanceDisplay",
        "DistanceDisplay",
        "KernelMatrixDisplay",
        "PosteriorMapDisplay",
        "ReliabilityDisplay",
        "SetSizeDisplay",
        "TrustDisplay",
    ]
