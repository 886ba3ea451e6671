"""Run the code of docs/displays.md, and write its pictures.

python examples/displays.py [--out displays]

The page is the example: each of its sections draws one display on real data.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from PIL import Image
from tqdm import tqdm

PAGE = Path(__file__).parents[1] / "docs" / "displays.md"


def save(figure, path: Path) -> None:
    """As a PNG of 256 colours: less than half of the bytes, and no difference to see."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=100)
    Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("displays"), help="the folder")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    session: dict = {}
    for section in tqdm(PAGE.read_text().split("\n## "), desc="displays", unit="section"):
        for block in re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL):
            exec(compile(block, PAGE.name, "exec"), session)
        for name in re.findall(r"\]\(images/displays/(\S+\.png)\)", section):
            save(session["figure"], out / name)
    print(f"Pictures: {out}")


if __name__ == "__main__":
    main()
