"""A small table as people have them: mixed columns, gaps, decimal commas, an id."""

from .loans import load_loans, path

__all__ = ["load_loans", "path"]
