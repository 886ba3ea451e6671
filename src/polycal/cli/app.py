"""The commands. Each reads its arguments, calls the library, and shows the result."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from . import show
from .alarms import check, monitor
from .errors import shown_errors
from .options import (
    Columns,
    Data,
    Decimal,
    Encoding,
    Json,
    Model,
    Ood,
    ParentName,
    Reading,
    Sep,
    Target,
    columns_option,
    load_model,
)

HELP = (
    "Probabilities that are calibrated where there was training data, and fall back to the class "
    "priors where there was none."
)
# Rows that show the names of the columns.
FIRST_ROWS = 1000
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Start here: polycal fit train.csv --target label -o m.polycal, then polycal predict "
        "m.polycal new.csv -o out.csv"
    ),
)


def _show_version(asked: bool) -> None:
    if asked:
        print(sys.modules["polycal"].__version__)
        raise typer.Exit


@app.callback(help=HELP)
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command(epilog="polycal fit train.csv --target label -o m.polycal --parent hgb")
def fit(
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    parent: Annotated[ParentName, typer.Option(help="Model that is fitted and calibrated.")] = (
        ParentName.forest
    ),
    set_: Annotated[
        Columns, typer.Option("--set", metavar="NAME=VALUE", help="Parameter of the parent.")
    ] = None,
    drop: Annotated[Columns, columns_option("Column to leave out")] = None,
    category: Annotated[Columns, columns_option("Column to read as a category")] = None,
    number: Annotated[Columns, columns_option("Column to read as numbers, or NAME=-999")] = None,
    date: Annotated[Columns, columns_option("Column to read as dates, or NAME=%d-%b-%Y")] = None,
    text: Annotated[Columns, columns_option("Column of prose, which is left out")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    calibration_file: Annotated[
        Path | None, typer.Option(help="File of rows to calibrate on, which the fit must not see.")
    ] = None,
    false_alarm: Annotated[
        str,
        typer.Option(
            help='Share of in-distribution rows that may get the verdict "out", or "auto".'
        ),
    ] = "0.01",
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Fit batch by batch, on more rows than memory; by default a file of more than 500 "
            "MB, or a Parquet file of more than a million rows, is.",
            show_default=False,
        ),
    ] = None,
    memory_limit: Annotated[
        str, typer.Option(help="Memory of the tables that rows are looked up in.")
    ] = "2GiB",
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = 1,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Fit a parent on a table, calibrate it, and write a model file."""
    with shown_errors(), show.say.status("reading"):
        from .files import STREAM, Source, check_names, decimal_of
        from .fit import FitOptions, fit_table
        from .fit_batches import fit_source, is_large
        from .output import check_output, is_same_file
        from .roles import chosen_roles

        if output == STREAM:
            raise ValueError("--output must name a file; a model is not written to stdout.")
        sources = [data] if calibration_file is None else [data, calibration_file]
        check_output(output, *sources)
        if data != STREAM and calibration_file is not None and is_same_file(data, calibration_file):
            raise ValueError(
                f"--calibration-file is {data} itself. Give a file of other rows, or leave the "
                "option out: polycal then calibrates by rows that it holds out."
            )
        level = "auto" if false_alarm == "auto" else _number(false_alarm, "--false-alarm")
        progress = show.say.is_terminal and not as_json
        known = (parent.value, set_ or [], weight, level, memory_limit, seed, jobs, progress)
        source, options = Source(data, sep, encoding, decimal), FitOptions(*known)
        if stream and calibration_file is not None:
            raise ValueError(
                "--stream sets a tenth of the rows apart to calibrate on, and takes no "
                "--calibration-file. Leave one of the two out."
            )
        if stream and data == STREAM:
            raise ValueError(
                "--stream reads a file three times, and stdin can be read only once. Name a file."
            )
        if stream is None and calibration_file is None and is_large(source):
            stream = True
            show.line(f"{data} is large, and is fitted batch by batch; --no-stream reads it whole.")
        table = next(source.pieces(FIRST_ROWS)) if stream else source.read()
        held = None
        if calibration_file is not None:
            mark = decimal_of(table)
            held = Source(calibration_file, sep, encoding, decimal, mark).read()
        names = list(table.columns)
        check_names(names, target, weight)
        roles = {"drop": drop, "category": category, "number": number, "date": date, "text": text}
        chosen = chosen_roles([name for name in names if name not in (target, weight)], **roles)
    with shown_errors():
        if stream:
            model, facts = fit_source(source, target, chosen, options)
        else:
            model, facts = fit_table(table, held, target, chosen, options)
        model.verbose = 0  # progress bars are for this fit only
        model.save(output)
    facts = {"model": str(output), **facts}
    assert model.columns_ is not None
    if as_json:
        read_as = {name: role._asdict() for name, role in model.columns_.items()}
        return show.as_json({**facts, "columns": read_as})
    show.columns(model.columns_)
    show.facts(facts)
    show.line(f"Next: polycal predict {output} NEW.csv -o predictions.csv")


@app.command(epilog="polycal predict m.polycal new.csv -o predictions.parquet --keep id")
def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="CSV, TSV or Parquet to write; - is stdout.")
    ],
    keep: Annotated[Columns, columns_option("Column of DATA to copy as it is")] = None,
    prefix: Annotated[
        str, typer.Option(help="Beginning of the names of the columns of the answers.")
    ] = "",
    rows_at_a_time: Annotated[int, typer.Option(min=1, help="Rows in memory at once.")] = 20_000,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Predict the label, probabilities, trust weight and verdict of each row, in chunks."""
    from .predict import predict_file

    with shown_errors():
        from .files import STREAM, Source
        from .output import check_output
        from .tables import trained_mark

        check_output(output, data, model)
        loaded = load_model(model)
        source = Source(data, sep, encoding, decimal, trained_mark(loaded))
        facts = predict_file(
            loaded, source, output, keep or [], prefix, rows_at_a_time, not as_json
        )
    console = show.say if output == STREAM else show.out  # stdout has the rows
    show.as_json(facts, console) if as_json else show.facts(facts, console)


@app.command(epilog="polycal evaluate m.polycal test.csv --target label --ood other.csv")
def evaluate(
    model: Model,
    data: Data,
    target: Target,
    ood: Ood = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Compare error, calibration and out-of-distribution figures with the parent's."""
    with shown_errors():
        loaded, X, y, X_ood = _rows(model, data, target, ood, (sep, encoding, decimal))
        from ..evaluation import evaluate_with_parent

        found = evaluate_with_parent(loaded, X, y, ood=X_ood, random_state=0)
    if as_json:
        figures = [figure._asdict() for figure in found.figures]
        return show.as_json({"level": found.level, "figures": figures})
    show.evaluation(found)


@app.command(epilog="polycal report m.polycal test.csv --target label -o report.html")
def report(
    model: Model,
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    ood: Ood = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
) -> None:
    """Write one HTML page that says in plain words where the model can be believed."""
    with shown_errors():
        from .output import check_output

        check_output(output, data, model, *([] if ood is None else [ood]))
        loaded, X, y, X_ood = _rows(model, data, target, ood, (sep, encoding, decimal))
        from ..reporting import report as write_report

        with show.say.status("writing the report"):
            path = write_report(loaded, X, y, X_ood, output)
    show.line(f"Report: {path}")


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
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Explain why rows are in or out of distribution; without --rows, the ten least trusted."""
    from .explain import explain_rows

    with shown_errors():
        from .files import Source
        from .tables import features_of, trained_mark

        loaded = load_model(model)
        table = Source(data, sep, encoding, decimal, trained_mark(loaded)).read()
        found = explain_rows(loaded, features_of(loaded, table), rows, features)
    if as_json:
        return show.as_json({"rows": found})
    for line in found:
        print(line["text"])


# The commands that can raise an alarm.
app.command(epilog="polycal check m.polycal day.csv --json")(check)
app.command(epilog="polycal monitor m.polycal days/ --target label")(monitor)


@app.command(epilog="polycal info m.polycal --json")
def info(model: Model, as_json: Json = False) -> None:
    """Show what a model file holds."""
    with shown_errors():
        loaded = load_model(model)
        from .info import facts_for_machines, facts_for_people

        facts = (facts_for_machines if as_json else facts_for_people)(loaded, model)
    show.as_json(facts) if as_json else show.facts(facts)


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

    with shown_errors():
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
    with shown_errors():
        from .demo import run_demo

        path = run_demo(output, show.say.is_terminal)
    show.line(f"Report: {path}")


def run() -> None:
    """Run the application; a warning is printed in one line, like an error."""
    warnings.showwarning = show.warning
    app()


# ------------------------------------------------------------------ helpers


def _rows(
    model: Path,
    data: Path,
    target: str,
    ood: Path | None,
    reading: Reading,
) -> tuple[Any, Any, Any, Any]:
    """Model, features, labels, and features of the OOD rows if any."""
    from .files import Source
    from .tables import features_of, labels_of, trained_mark

    loaded = load_model(model)
    mark = trained_mark(loaded)
    with show.say.status("reading"):
        table = Source(data, *reading, mark).read()
        y = labels_of(table, target, loaded.classes_)
        X = features_of(loaded, table)
        if ood is None:
            return loaded, X, y, None
        return loaded, X, y, features_of(loaded, Source(ood, *reading, mark).read())


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'{name} must be a number or "auto"; got {text!r}.') from None
