"""``polycal predict``: predictions for a file, in chunks."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .._utils.files import atomic_file
from .._utils.optional import optional
from ..calibration.fitted_model import Answer
from ..calibration.query_guards import warn_of_shift
from ..core.execution import Execution
from ..estimators.answers import answer_columns
from ..gate.explanation import EDGE, INSIDE, OUTSIDE
from .files import STREAM, Source, kind_of, no_column
from .output import Writer
from .tables import features_of


def predict_file(
    model: Any, source: Source, output: Path, keep: list[str], prefix: str, n_rows: int, show: bool
) -> dict[str, Any]:
    """Write the predictions; returns a summary."""
    kind = ".csv" if output == STREAM else kind_of(output)
    total, warned = 0, False
    verdicts = dict.fromkeys((INSIDE, EDGE, OUTSIDE), 0)
    with (
        nullcontext(STREAM) if output == STREAM else atomic_file(output) as part,
        tqdm(desc="predict", unit="row", disable=None if show else True, leave=False) as bar,
    ):
        writer = Writer(part, kind)
        try:
            for table in source.pieces(n_rows):
                if not len(table):
                    continue
                frame, answer, X = predict_table(model, table, keep, prefix)
                if not warned:  # once for a file
                    how = model.columns_, Execution(model.n_jobs)
                    warned = warn_of_shift(model.model_, answer, X, *how)
                writer.write(frame)
                words, counts = np.unique(frame[f"{prefix}verdict"], return_counts=True)
                for word, n in zip(words, counts, strict=True):
                    verdicts[str(word)] += int(n)
                total += len(frame)
                bar.update(len(frame))
        finally:
            writer.close()
        if not total:
            raise ValueError(f"{source.name} holds no rows.")
    return {"output": str(output), "rows": total, **verdicts}


def predict_table(model: Any, table: Any, keep: list[str], prefix: str) -> tuple[Any, Answer, Any]:
    """Kept columns, label, probabilities, trust weight and verdict; the answer, and the rows."""
    pandas = optional("pandas", "cli")
    absent = [name for name in keep if name not in table.columns]
    if absent:
        raise no_column("--keep", absent[0], list(table.columns))
    X = features_of(model, table)
    answer = model.answer(X)
    columns = answer_columns(model, answer, prefix)
    twice = [name for name in keep if name in columns]
    if twice:
        raise ValueError(
            f"--keep {twice[0]!r} has the name of a column of the answers. Give those another "
            "beginning: --prefix polycal_."
        )
    kept = {name: table[name].array for name in keep}
    return pandas.DataFrame({**kept, **columns}), answer, X
