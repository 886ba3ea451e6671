"""Checks of labels: what each accepts, what it refuses, and what the message names."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from polycal._utils.labels import check_calibration_labels, check_labels, class_columns


def test_the_name_of_the_labels_is_in_the_message():
    with pytest.raises(ValueError, match="y_cal must hold one label for each of the 3 rows"):
        check_labels([0, 1], 3, "y_cal")


def test_calibration_labels_become_codes():
    classes = np.array([3, 5])
    assert_array_equal(check_calibration_labels(np.array([5, 3, 5]), classes), [1, 0, 1])
    words = np.array(["3", "5"])
    for labels, message in [
        (words, "y_cal holds str, such as '3', and y int, such as 3. Make them one type"),
        ([3], "X_cal has 1 row; at least 2"),
        ([3, 5, 9], r"y_cal holds \[9\], which y does not; the classes of y are \[3, 5\]"),
        ([3, 3], r"y_cal has no row of class \[5\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_calibration_labels(np.asarray(labels), classes)


def test_columns_of_classes_in_any_order():
    classes = np.array(["b", "c", "a"])
    assert_array_equal(class_columns(["a", "b", "c", "a"], classes), [2, 0, 1, 2])
    with pytest.raises(ValueError, match=r"it holds \['z'\] too"):
        class_columns(["a", "z"], classes)
    with pytest.raises(ValueError, match=r"got shape \(1, 1\)\. Use y\.ravel\(\)"):
        class_columns([["a"]], classes)
