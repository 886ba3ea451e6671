"""Batches and streams of new rows, compared with the rows that a fitted model has kept."""

from .check import BatchCheck, FeatureShift
from .monitor import Monitor, StreamStatus

__all__ = ["BatchCheck", "FeatureShift", "Monitor", "StreamStatus"]
