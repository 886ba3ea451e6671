"""The commands. Each reads its arguments, calls the library, and shows the result."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Probabilities that are calibrated where there was training data, and fall back to the "
        "class priors where there was none."
    ),
    epilog=(
        "Start here: polycal fit train.csv --target label -o m.polycal, then polycal predict "
        "m.polycal new.csv -o out.csv"
    ),
)
# Messages go to stderr and results to stdout, so that a pipe gets results only.
say = Console(stderr=True, highlight=False)
out = Console(highlight=False)


class ParentName(StrEnum):
    """Parents that the command line can fit."""

    forest = "forest"
    extra_trees = "extra-trees"
    hgb = "hgb"
    lightgbm = "lightgbm"
    xgboost = "xgboost"
    mlp = "mlp"


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV or Parquet file.", show_default=False)
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column of the labels.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]
Ood = Annotated[
    Path | None, typer.Option(help="File of out-of-distribution rows.", show_default=False)
]


@app.command(epilog="polycal fit train.csv --target label -o m.polycal --parent hgb")
def fit(
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    parent: Annotated[ParentName, typer.Option(help="Model that is fitted and calibrated.")] = (
        ParentName.forest
    ),
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be given several times.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    false_alarm: Annotated[
        str,
        typer.Option(
            help='Share of in-distribution rows that may get the verdict "out", or "auto".'
        ),
    ] = "0.01",
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    as_json: Json = False,
) -> None:
    """Fit a parent on a table, calibrate it, and write a model file."""
    from .fit import fit_table

    with _errors(), say.status("reading"):
        from .tables import check_output, read_table

        check_output(output)
        table = read_table(data)
    with _errors():
        level = "auto" if false_alarm == "auto" else _number(false_alarm, "--false-alarm")
        show = say.is_terminal and not as_json
        model, facts = fit_table(
            table, target, parent.value, drop or [], weight, level, seed, jobs, show
        )
        model.verbose = 0  # progress bars are for this fit only
        model.save(output)
    facts = {"model": str(output), **facts}
    if as_json:
        return _print_json(facts)
    _facts(facts)
    _say(f"Next: polycal predict {output} NEW.csv -o predictions.csv")


@app.command(epilog="polycal predict m.polycal new.csv -o predictions.parquet --keep id")
def predict(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV or Parquet to write.")],
    keep: Annotated[
        list[str] | None, typer.Option(help="Column of DATA to copy; may be given several times.")
    ] = None,
    rows_at_a_time: Annotated[int, typer.Option(min=1, help="Rows in memory at once.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Predict the label, probabilities, trust weight and verdict of each row, in chunks."""
    from .predict import predict_file

    with _errors():
        loaded = _load(model)
        facts = predict_file(loaded, data, output, keep or [], rows_at_a_time, not as_json)
    _print_json(facts) if as_json else _facts(facts)


@app.command(epilog="polycal evaluate m.polycal test.csv --target label --ood other.csv")
def evaluate(
    model: Model, data: Data, target: Target, ood: Ood = None, as_json: Json = False
) -> None:
    """Compare error, calibration and out-of-distribution figures with the parent's."""
    with _errors():
        loaded, X, y, X_ood = _rows(model, data, target, ood)
        from ..evaluation import evaluate_with_parent

        found = evaluate_with_parent(loaded, X, y, ood=X_ood, random_state=0)
    if as_json:
        return _print_json({"level": found.level, "figures": [f._asdict() for f in found.figures]})
    print(found.to_markdown())


@app.command(epilog="polycal report m.polycal test.csv --target label -o report.html")
def report(
    model: Model,
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    ood: Ood = None,
) -> None:
    """Write one HTML page that says in plain words where the model can be believed."""
    with _errors():
        from .tables import check_output

        check_output(output)
        loaded, X, y, X_ood = _rows(model, data, target, ood)
        from ..reporting import report as write_report

        with say.status("writing the report"):
            path = write_report(loaded, X, y, X_ood, output)
    _say(f"Report: {path}")


@app.command(epilog="polycal explain m.polycal new.csv --rows 3 --rows 17")
def explain(
    model: Model,
    data: Data,
    rows: Annotated[
        list[int] | None,
        typer.Option(
            min=0, help="Row of DATA, from 0; may be given several times.", show_default=False
        ),
    ] = None,
    features: Annotated[int, typer.Option(min=1, help="Most surprising features to show.")] = 3,
    as_json: Json = False,
) -> None:
    """Explain why rows are in or out of distribution; without --rows, the ten least trusted."""
    from .explain import explain_rows

    with _errors():
        from .tables import category_columns, features_of, read_table

        loaded = _load(model)
        table = read_table(data, category_columns(loaded))
        found = explain_rows(loaded, features_of(loaded, table), rows, features)
    if as_json:
        return _print_json({"rows": found})
    for line in found:
        print(line["text"])


@app.command(epilog="polycal info m.polycal --json")
def info(model: Model, as_json: Json = False) -> None:
    """Show what a model file holds."""
    with _errors():
        loaded = _load(model)
        from .info import facts_for_machines, facts_for_people

        facts = (facts_for_machines if as_json else facts_for_people)(loaded, model)
    _print_json(facts) if as_json else _facts(facts)


@app.command(
    epilog="polycal reproduce trunk --quick",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def reproduce(
    study: Annotated[str, typer.Argument(help="Name of a study, as in studies/README.md.")],
    context: typer.Context,
) -> None:
    """Run a study of the paper, in a clone of the repository; other options go to the study."""
    import subprocess

    with _errors():
        known = sorted(p.stem for p in Path("studies").glob("[a-z]*.py") if p.stem != "data")
        if study not in known:
            there = f"it has {', '.join(known)}" if known else "there is no folder studies here"
            raise ValueError(
                f"STUDY must name a study of the repository; got {study!r}, {there}. Run this in "
                "a clone of the repository."
            )
    raise typer.Exit(subprocess.call([sys.executable, "-m", f"studies.{study}", *context.args]))


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "demo.html"
    ),
) -> None:
    """Fit a forest on scikit-learn's digits 0 to 7, and report on it with 8 and 9 as unknown."""
    with _errors():
        from .demo import run_demo

        path = run_demo(output, say.is_terminal)
    _say(f"Report: {path}")


def run() -> None:
    """Run the application; a warning is printed in one line, like an error."""
    warnings.showwarning = _say_warning
    app()


# ------------------------------------------------------------------ helpers


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors that a user can correct into one line and exit code 2; ctrl-C exits with 130."""
    try:
        yield
    except KeyboardInterrupt:
        _say("Stopped; no incomplete file was left.")
        raise typer.Exit(130) from None
    except (OSError, ValueError, TypeError, ImportError, KeyError) as error:
        text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror}."
        _say(f"error: {' '.join(text.split())}", "bold red")
        raise typer.Exit(2) from None


def _say(text: str, style: str | None = None) -> None:
    """Print one line to stderr, without wrapping and without markup."""
    say.print(text, style=style, markup=False, soft_wrap=True)


def _say_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning without its file and line."""
    _say(f"note: {' '.join(str(message).split())}", "yellow")


def _load(path: Path) -> Any:
    from ..persistence import load

    with say.status("loading the model"):
        return load(path)


def _rows(model: Path, data: Path, target: str, ood: Path | None) -> tuple[Any, Any, Any, Any]:
    """Model, features, labels, and features of the OOD rows if any."""
    from .tables import category_columns, features_of, labels_of, read_table

    loaded = _load(model)
    text = category_columns(loaded)
    with say.status("reading"):
        table = read_table(data, text)
        y = labels_of(loaded, table, target)
        X_ood = None if ood is None else features_of(loaded, read_table(ood, text))
        return loaded, features_of(loaded, table), y, X_ood


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'{name} must be a number or "auto"; got {text!r}.') from None


def _facts(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {item:.3g}" for key, item in value.items())
        table.add_row(Text(name, "dim"), Text(str(value)))
    out.print(table)


def _print_json(value: Any) -> None:
    print(json.dumps(_finite(value), default=str, allow_nan=False))


def _finite(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
