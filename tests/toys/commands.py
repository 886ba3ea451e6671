"""A command as a user types it."""

from __future__ import annotations

from typer.testing import CliRunner

from polycal.cli.app import app

runner = CliRunner()


def call(*arguments, code=0):
    result = runner.invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result
