"""What several commands share: arguments, options, and how a model file is opened."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from . import show


class ParentName(StrEnum):
    """Parents that the command line can fit."""

    forest = "forest"
    extra_trees = "extra-trees"
    hgb = "hgb"
    lightgbm = "lightgbm"
    catboost = "catboost"
    xgboost = "xgboost"
    mlp = "mlp"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV or Parquet file, also with .gz; - is stdin.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column of the labels.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]
Ood = Annotated[
    Path | None, typer.Option(help="File of out-of-distribution rows.", show_default=False)
]
Sep = Annotated[
    str | None,
    typer.Option(help='Separator of the cells, or "tab"; found if not named.', show_default=False),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of the file; found if not named.", show_default=False),
]
Decimal = Annotated[
    str | None, typer.Option(help='"." or ","; found if not named.', show_default=False)
]
Level = Annotated[float, typer.Option(help="Share of days that may raise an alarm by chance.")]
Smallest = Annotated[float, typer.Option(help="Smallest shift that is worth an alarm, as a share.")]
Columns = list[str] | None
# Separator, encoding and decimal mark of a file; what is None is found.
Reading = tuple[str | None, str | None, str | None]


def columns_option(help: str) -> Any:
    text = f"{help}; may be given several times."
    return typer.Option(metavar="NAME", help=text, show_default=False)


def load_model(path: Path) -> Any:
    """The model of a file."""
    from ..persistence import load

    with show.say.status("loading the model"):
        return load(path)
