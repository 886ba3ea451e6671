"""The command ``polycal``. Slow imports are inside the commands that need them."""

from __future__ import annotations

import sys

INSTALL = 'The command line needs typer and rich: pip install "polycal[cli]"'


def main() -> None:
    """Entry point: exit code 2 and one line for errors that a user can correct."""
    try:
        from .app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        print(INSTALL, file=sys.stderr)
        raise SystemExit(2) from None
    run()
