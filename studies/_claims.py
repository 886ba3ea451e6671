"""Claims of the paper, each checked against the figures of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ._runner import write_atomically


@dataclass(frozen=True)
class Claim:
    """What the paper says, for which of our models, what we found, and whether it holds."""

    says: str
    model: str
    found: str
    holds: bool

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold"


def write_claims(claims: Sequence[Claim], folder: Path, notes: Sequence[str] = ()) -> Path:
    """Print the claims, and write them as a Markdown table; ``notes`` follow it."""
    lines = ["| the paper says | model | our figure | verdict |", "|---|---|---|---|"]
    for claim in claims:
        print(f"{claim.verdict}: {claim.says} [{claim.model}]: {claim.found}")
        lines.append(f"| {claim.says} | {claim.model} | {claim.found} | {claim.verdict} |")
    lines += [f"\n{note}" for note in notes]
    path = folder / "claims.md"
    write_atomically(path, "\n".join(lines) + "\n")
    return path
