"""Errors as a user of the terminal sees them: one line, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from . import show


@contextmanager
def shown_errors() -> Iterator[None]:
    """Turn errors that a user can correct into one line and exit code 2; ctrl-C exits with 130."""
    try:
        yield
    except (KeyboardInterrupt, SystemError) as error:
        # At the edge of a compiled function, Python wraps the interrupt into a SystemError.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        show.line("Stopped; no incomplete file was left.")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise  # the reader of a pipe, such as head, has seen enough: typer ends without a word
    except (OSError, ValueError, TypeError, ImportError, KeyError) as error:
        text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}."
        show.line(f"error: {show.with_options(' '.join(text.split()))}", "bold red")
        raise typer.Exit(2) from None
