"""Helpers that are independent of the method: arrays, blocks, files, checks, optional libraries."""
