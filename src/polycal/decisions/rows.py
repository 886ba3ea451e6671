"""Labelled rows as a model answered for them: what promises about new rows rest on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._utils.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class JudgedRows:
    """Labelled rows, and probabilities that were found without their own labels.

    Rows of one group count as one. Where the class shares of new rows are others than those of
    these rows, the weights have the ratio of the shares.
    """

    probabilities: Floats  # (n_rows, n_classes)
    y: Ints  # class codes
    weight: Floats
    group: Ints  # rows of one group have one number, from 0
    out: Bools  # which rows the model calls out of distribution
    new_weight: Floats  # of a new row with its group, if it is of this class: (n_classes,)

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def with_prior(
        cls,
        probabilities: Floats,
        y: Ints,
        weight: Floats,
        group: Ints,
        out: Bools,
        ratio: Floats,
    ) -> JudgedRows:
        """Weigh the rows by ``ratio``, the class shares of new rows over those of these rows."""
        new_weight = ratio * weight.sum() / len(np.unique(group))
        return cls(probabilities, y, weight * ratio[y], group, out, new_weight)

    @property
    def own(self) -> Floats:
        """Probability of each row's class."""
        found: Floats = self.probabilities[np.arange(len(self)), self.y]
        return found

    def take(self, index: Ints | Bools) -> JudgedRows:
        """The rows of these numbers, or of this mask."""
        return JudgedRows(
            self.probabilities[index],
            self.y[index],
            self.weight[index],
            self.group[index],
            self.out[index],
            self.new_weight,
        )


def n_groups_worth(weight: Floats, group: Ints) -> float:
    """Number of groups of equal weight that say as much: (sum w)^2 / sum of squared w.

    Groups are numbered from 0.
    """
    if len(weight) == 0:
        return 0.0
    of_group = np.bincount(group, weight)
    return float(of_group.sum() ** 2 / (of_group**2).sum())
