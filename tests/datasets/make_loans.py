"""Makes the files of polycal.datasets: ``python -m tests.datasets.make_loans FOLDER``."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np

NAMES = "loan id;opened;branch;purpose;income;amount;rate;years employed;outcome"
OUTCOMES = np.array(["repaid", "late", "default"])
BRANCHES = {
    "Zürich": 0.36,
    "Genève": 0.24,
    "Bern": 0.2,
    "Basel": 0.15,
    "Lugano": 0.04,
    "Chur": 0.01,
}
# purpose: share, and what it adds to the risk
PURPOSES = {
    "car": (0.33, 0.0),
    "home": (0.25, -0.8),
    "debt": (0.2, 0.9),
    "education": (0.12, -0.3),
    "business": (0.06, 0.7),
    "medical": (0.025, 0.4),
    "boat": (0.01, 0.0),
    "wedding": (0.005, 0.3),
}


def make_lines(n: int, first: int, seed: int) -> list[list[str]]:
    """Cells of n loans, numbered from ``first``."""
    rng = np.random.default_rng(seed)
    opened = [date(2021, 1, 4) + timedelta(int(day)) for day in rng.integers(0, 1400, n)]
    branch = rng.choice([*BRANCHES], n, p=[*BRANCHES.values()])
    shares = [share for share, _ in PURPOSES.values()]
    purpose = rng.choice([*PURPOSES], n, p=shares)
    income = np.exp(rng.normal(8.5, 0.35, n))
    amount = np.exp(rng.normal(9.4, 0.6, n)) * np.where(purpose == "home", 3.0, 1.0)
    employed = rng.gamma(1.6, 4.0, n)
    burden = np.log(amount / income) - 0.9 - 1.1 * (purpose == "home")
    added = np.array([PURPOSES[name][1] for name in purpose])
    risk = 1.6 * burden + added - 0.15 * employed + 0.6 * (branch == "Lugano")
    rate = np.clip(5.5 + 0.8 * risk + rng.normal(0, 0.7, n), 0.9, 14.9)
    noisy = 1.5 * risk + rng.logistic(0, 0.8, n)
    outcome = OUTCOMES[np.digitize(noisy, [0.2, 1.9])]
    columns = (
        [f"L{first + i:05d}" for i in range(n)],
        [f"{day:%d.%m.%Y}" for day in opened],
        branch,
        purpose,
        [f"{value:.2f}" for value in income],
        [f"{value:.2f}" for value in amount],
        [f"{value:.1f}" for value in rate],
        [f"{value:.1f}" for value in employed],
        outcome,
    )
    cells = [[*map(str, row)] for row in zip(*columns, strict=True)]
    for i in np.flatnonzero(rng.random(n) < 0.02):
        cells[i][4] = "n.a."
    for i in np.flatnonzero(rng.random(n) < 0.06):
        cells[i][7] = ""
    return cells


def make_files() -> dict[str, str]:
    """Text of each file, by name."""
    loans, new = make_lines(800, 1, seed=0), make_lines(250, 801, seed=1)
    new[0][5] = f"{100 * float(new[0][5]):.2f}"  # a slip of the decimal mark
    new[1][2] = "Reykjavík"  # never seen
    new[2][6] = f"{100 * float(new[2][6]):.1f}"  # in basis points
    return {"loans": as_text(loans), "loans_new": as_text(new)}


def as_text(cells: list[list[str]]) -> str:
    """Lines with semicolons and decimal commas."""
    rows = []
    for row in cells:
        numbers = [cell if cell == "n.a." else cell.replace(".", ",") for cell in row[4:8]]
        rows.append(";".join([*row[:4], *numbers, row[8]]))
    return "\n".join([NAMES, *rows, ""])


if __name__ == "__main__":
    for name, text in make_files().items():
        (Path(sys.argv[1]) / f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")
