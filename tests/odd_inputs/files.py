"""Odd files of text: what each holds, and the message or the role that its column ``m`` gets."""

from __future__ import annotations

import random

import numpy as np

RNG = np.random.default_rng(0)
N = 120
X = [f"{v:.3f}" for v in RNG.normal(size=N)]
Y = ["ja" if v > 0 else "nein" for v in RNG.normal(size=N)]
CHANCE = random.Random(0)


def table(cell=None, sep=",", end="\n"):
    """A file of columns x, m (if there is a function of the row number) and y."""
    cells = [str(cell(i)) for i in range(N)] if cell else None
    rows = zip(X, *([cells] if cells else []), Y, strict=True)
    head = ["x", *(["m"] if cells else []), "y"]
    return "".join(sep.join(row) + end for row in (head, *rows))


def share():
    return CHANCE.random() * 100


PLAIN = table()
LINES = PLAIN.splitlines()


def with_line(k, line):
    return "\n".join([*LINES[:k], line, *LINES[k + 1 :]]) + "\n"


REFUSED = {
    "nothing": (b"", "is empty"),
    "empty lines": ("\n\n\n", "is empty"),
    "a header": (LINES[0], "holds no rows below its header"),
    "no header": ("\n".join(LINES[1:]), "'y' is not a column.*first line of a file must hold"),
    "another separator": (table(sep=":"), r"'y' is not a column of DATA: \['x:y'\].*--sep"),
    "a title": ("My table\n\n" + PLAIN, "line 3: 2 cells where the header has 1.*'My table' if"),
    "a comment": ("# today\n" + PLAIN, "Remove '# today' if it is a title"),
    "a long line": (with_line(4, "1,ja,9"), "line 5: 3 cells where the header has 2.*quotes"),
    "a short line": (with_line(4, "1"), "line 5: 1 cell where the header has 2"),
    "an open quote": (with_line(4, '"1,ja'), "line 5: a quote is not closed"),
    "a null byte": (PLAIN.replace("\n", "\0\n", 2), "holds null bytes.*export it as CSV"),
    "utf-16 without a mark": (PLAIN.encode("utf-16-le"), "say --encoding utf-16"),
    "a spreadsheet": (b"PK\x03\x04\0\0\0\0", "export it as CSV"),
    "two columns of a name": ("x,x,y\n1,2,ja\n", "several columns of the name 'x'"),
    "two names but for blanks": ("x, x,y\n1,2,ja\n", "blanks around a name do not count"),
    "a line of totals": (PLAIN + "123,\n", f"label is missing in 1 row.*line {N + 2} of"),
    "an infinite number": (table(lambda i: "inf" if i == 5 else i / 7), "line 7 of .*'inf'"),
    "1e39": (table(lambda i: "1e39" if i == 5 else i / 7), "below 3e38; line 7 of .*'1e39'"),
    "1e400": (table(lambda i: "1e400" if i == 5 else i / 7), "line 7 of .*'1e400'"),
}
NOTED = {
    "cp1252": (table(lambda i: ["Zürich", "Bern"][i % 2]).encode("cp1252"), "in line 2, and is"),
    "blanks around a name": (PLAIN.replace("x", " x ", 1), "blanks around names"),
    "no values": (table(lambda i: ""), r"left out: 'm' \(dropped: every value is missing\)\.$"),
    "two currencies": (
        table(lambda i: f"{'$€'[i % 4 == 0]}{i / 7:.2f}"),
        "of which 90 in.* number",
    ),
    "two kinds of dates": (
        table(lambda i: f"2024-03-{i % 28 + 1:02d}" if i % 2 else f"{i % 28 + 1:02d}.03.2024"),
        "'m' is read as a category, though it holds dates, in several formats",
    ),
    "short years": (table(lambda i: f"{i % 28 + 1:02d}.03.{i % 60 + 40}"), "unknown century"),
    "seven kinds of gaps": (
        table(lambda i: f"bad{i % 7}" if i % 17 == 0 else i / 7),
        "are numbers",
    ),
    "half text": (table(lambda i: f"t{i % 9}" if i % 2 else i % 40), "category, though 60 of 120"),
    "errors of Excel": (
        table(lambda i: "#DIV/0!" if i % 40 == 0 else i / 7),
        "'#DIV/0!' as missing",
    ),
    "impossible dates": (
        table(lambda i: "00.00.0000" if i == 3 else f"{i % 28 + 1:02d}.03.2024"),
        "'00.00.0000' as missing, in 1 of 120 cells, the first in line 5",
    ),
    "phone numbers": (table(lambda i: f"+49 30 {10**6 + i}"), r"left out: 'm' \(id"),
    "hexadecimal": (table(lambda i: hex(10**6 + i)), r"left out: 'm' \(id"),
    "leading zeros": (table(lambda i: f"{7 * i:05d}"), "with leading zeros"),
    "codes": (
        table(lambda i: -999 if i % 20 == 0 else i / 7),
        r"codes for .* values: 'm' \(-999 in 6 of 120 rows\).*--number m=-999; --number m reads",
    ),
    "large codes": (table(lambda i: 99999 if i % 20 == 0 else i / 7), "say --number m=99999"),
    "codes behind a comma": (
        table(lambda i: '"-99,9"' if i % 20 == 0 else f'"{i},5"'),
        r"say --number m=-99\.9",
    ),
    "labels with blanks": (
        PLAIN.replace(",ja", ",ja ", 3),
        "'ja' and 'ja ' in column 'y' differ by",
    ),
    "prose": (table(lambda i: f"he said {i} times that it was so"), r"'m' \(text: prose"),
}
READ = {
    "a plain file": (PLAIN, None),
    "commas at the end": (table(end=",\n"), "every value is missing"),
    "mixed line ends": (PLAIN.replace("\n", "\r\n", 50), None),
    "line ends of an old Mac": (table(end="\r"), None),
    "empty lines between": (table(end="\n\n"), None),
    "a mark": (b"\xef\xbb\xbf" + PLAIN.encode(), None),
    "a line of Excel": ("sep=;\n" + table(sep=";"), None),
    "bars": (table(sep="|"), None),
    "a quoted line end": (table(lambda i: f'"a\nb{i % 3}"'), "category: 3 levels"),
    "long cells": (table(lambda i: "a" * 20_000 + str(i % 3)), "category: 3 levels"),
    "thousands": (table(lambda i: f'"{10**4 * i:,}"'), "number: "),
    "narrow blanks": (table(lambda i: f"{10**4 * i:,}".replace(",", "\u202f")), "number: "),
    "apostrophes": (table(lambda i: f"{10**4 * i:,}".replace(",", "'")), "number: "),
    "percent": (table(lambda i: f"{share():.1f}%"), "number: in %"),
    "a currency": (table(lambda i: f"${share():.2f}"), r"number: in \$"),
    "a currency behind": (table(lambda i: f"{share():.2f} €"), "number: in €"),
    "a unit": (table(lambda i: f"{i} kg"), "number: in kg"),
    "times": (table(lambda i: f"{i % 24:02d}:{i % 60:02d}"), "number: in hours"),
    "a typographic minus": (table(lambda i: f"\u2212{i / 7:.3f}"), "number: "),
    "signs": (table(lambda i: f"+{i / 7:.3f}"), "number: "),
    "powers of ten": (table(lambda i: f"{i / 7:.2e}"), "number: "),
    "hard blanks": (table(lambda i: f"\u00a0{i / 7:.2f}\u00a0"), "number: "),
    "numbers of 26 digits": (table(lambda i: 10**25 + 7 * i * 10**20), "number: "),
    "negative numbers": (table(lambda i: -99 if i % 20 == 0 else -i / 7), "number: "),
    "truth": (table(lambda i: ["TRUE", "False"][i % 2]), "number: true is 1"),
    "yes and no": (table(lambda i: ["yes", "no"][i % 2]), "category: 2 levels"),
    "ranges": (table(lambda i: ["10-20", "20-30"][i % 2]), "category: 2 levels"),
    "fractions": (table(lambda i: f"{i % 7}/8"), "category: 7 levels"),
    "weeks": (table(lambda i: f"2024-W{i % 50:02d}"), "category: 50 levels"),
    "time zones": (table(lambda i: f"2024-03-{i % 28 + 1:02d}T10:00:00+02:00"), "date: "),
    "dates with a clock": (table(lambda i: f"{i % 28 + 1:02d}.03.2024 10:15"), "date: .*%H:%M"),
    "names of months": (table(lambda i: f"{i % 28 + 1}-Mar-2024"), "date: .*%d-%b-%Y"),
    "symbols": (table(lambda i: "🙂🙁"[i % 2]), "category: 2 levels"),
    "formulas": (table(lambda i: f"=1+{i % 2}"), "category: 2 levels"),
    "lists": (table(lambda i: f'"[1, {i % 3}]"'), "category: 3 levels"),
}
