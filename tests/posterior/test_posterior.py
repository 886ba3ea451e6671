"""The mixture with the prior, the label, and the class shares behind them."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from polycal.posterior.posterior import Posterior, mixture, most_probable, shift_prior, views_of


def test_most_probable_uses_the_posterior_below_rounding():
    log_pi = np.log([[0.2, 0.8], [0.7, 0.3]])
    P = mixture(np.array([1e-300, 0.0]), log_pi, np.array([0.5, 0.5]))
    assert_array_equal(P, [[0.5, 0.5], [0.5, 0.5]])
    assert_array_equal(most_probable(P, log_pi), [1, 0])


def test_mixture_is_the_prior_where_alpha_is_zero_even_without_a_posterior():
    P = mixture(np.array([0.0]), np.array([[np.nan, np.nan]]), np.array([0.3, 0.7]))
    assert_array_equal(P, [[0.3, 0.7]])


def test_views_add_one_row_of_the_prior():
    log_p, minus_log_rest, p = views_of(np.array([[1.0, 0.0]]), np.array([0.5, 0.5]), 9)
    assert_allclose(p, [[0.95, 0.05]])
    assert_allclose(log_p, np.log(p))
    assert_allclose(minus_log_rest, -np.log(1 - p))


def test_prior_shift_is_bayes_rule():
    moved = shift_prior(np.log([[0.5, 0.5]]), np.array([0.5, 0.5]), np.array([0.9, 0.1]))
    assert_allclose(np.exp(moved), [[0.9, 0.1]])


def test_lift_is_that_of_the_class_that_fits_best_whatever_the_prior():
    share = np.array([0.9, 0.1])
    log_pi = np.log([[0.9, 0.1], [0.5, 0.5], [1.0 - 1e-9, 1e-9]])
    expected = np.log([1.0, 5.0, (1.0 - 1e-9) / 0.9])
    same = Posterior(1.0, None, share, share, share, 100)
    assert_allclose(same.lift(log_pi), expected, atol=1e-12)
    moved = Posterior(1.0, None, share, share, np.array([0.5, 0.5]), 100)
    assert_allclose(moved.lift(shift_prior(log_pi, share, moved.prior)), expected, atol=1e-12)
