"""Batches and streams of new rows, compared with the rows that a fitted model has kept."""

from .check import BatchCheck, FeatureShift

__all__ = ["BatchCheck", "FeatureShift"]
