"""A script with its arguments, run in this process: what it imports is imported once."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock


class Done(NamedTuple):
    """How a script ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run_script(path: Path, *arguments: object) -> Done:
    """Run a script as its command does: its folder comes first among those of modules."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", [str(path), *map(str, arguments)]),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        warnings.showwarning = lambda *found: err.write(warnings.formatwarning(*found[:4]))
        try:
            runpy.run_path(str(path), run_name="__main__")
            status = 0
        except SystemExit as end:
            said = end.code not in (None, 0) and not isinstance(end.code, int)
            if said:
                err.write(f"{end.code}\n")
            status = 1 if said else int(end.code or 0)
        except Exception:
            err.write(traceback.format_exc())
            status = 1
    return Done(status, out.getvalue(), err.getvalue())
