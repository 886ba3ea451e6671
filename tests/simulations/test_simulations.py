"""Samples follow their stated densities, posteriors their samples, and images their formulas."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import kstest, multivariate_normal, norm, uniform

from polycal import simulations
from polycal.simulations import (
    densities,
    make_circle,
    make_ellipse_images,
    make_gaussian_xor,
    make_mixed_images,
    make_polynomial,
    make_shape_images,
    make_sinewave,
    make_spiral,
    make_trunk,
    sample_sphere,
    true_posterior,
)
from polycal.simulations.densities import (
    RADII,
    SIMULATIONS,
    circle_mass,
    cosine,
    cubic,
    curve_mass,
    line,
    sine,
)
from polycal.simulations.images import draw_ellipses, draw_rectangles

MAKERS = {
    "spiral": make_spiral,
    "circle": make_circle,
    "sinewave": make_sinewave,
    "gaussian_xor": make_gaussian_xor,
    "polynomial": make_polynomial,
    "trunk": make_trunk,
}
CURVES = {"sinewave": (cosine, sine), "polynomial": (line, cubic)}
IMAGES = [make_shape_images, make_mixed_images, make_ellipse_images]
each_simulation = pytest.mark.parametrize("name", MAKERS)


@cache
def sample(name, bounded=False):
    options = {"bounded": True} if bounded else {}
    return MAKERS[name](400_000, random_state=0, **options)


def assert_follows(values, cdf):
    """Kolmogorov-Smirnov; the seeds are fixed, so the level is that of one run."""
    assert kstest(values, cdf).pvalue > 1e-3


def numerical_cdf(density, low, high):
    """Distribution function of a density known up to its mass, by the midpoint rule."""
    grid = np.linspace(low, high, 4001)
    middle = density((grid[1:] + grid[:-1]) / 2)
    steps = np.r_[0, np.cumsum(middle)]
    return lambda x: np.interp(x, grid, steps / steps[-1])


# Tables


@each_simulation
def test_labels_shapes_and_seeds(name):
    make = MAKERS[name]
    X, y = make(1001, random_state=5)
    assert X.shape == (1001, 2)
    assert X.dtype == float
    assert_array_equal(np.bincount(y), [501, 500])
    assert 400 < np.count_nonzero(np.diff(y)) < 600  # random order
    again, y_again = make(1001, random_state=np.random.RandomState(5))
    assert_array_equal(again, X)
    assert_array_equal(y_again, y)
    other, _ = make(1001, random_state=6)
    assert not np.isin(other, X).any()
    assert make(random_state=0)[0].shape == (1000, 2)
    assert make(1, random_state=0)[1] == [0]


@pytest.mark.parametrize("name", ["spiral", "circle", "sinewave", "polynomial"])
def test_rows_lie_in_the_box(name):
    X, _ = sample(name)
    assert 0.999 < np.abs(X).max() <= 1
    if name == "spiral":
        assert np.linalg.norm(X, axis=1).max() <= 1


def test_bounded_gaussian_xor_lies_in_the_box():
    assert np.abs(sample("gaussian_xor", bounded=True)[0]).max() <= 1
    assert np.abs(sample("gaussian_xor")[0]).max() > 1


def test_spiral_follows_its_density():
    X, y = sample("spiral")
    radius, angle = np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])
    assert_follows(radius, uniform.cdf)
    ahead = angle - 4 * np.pi * radius - np.pi * y
    noise = (ahead + np.pi) % (2 * np.pi) - np.pi
    for rows in (y == 0, y == 1, radius < 0.1, radius > 0.9):
        assert_follows(noise[rows], norm(scale=0.3).cdf)


def test_circle_follows_its_density():
    X, y = sample("circle")
    radius, angle = np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])
    assert_follows(angle[radius < 1], uniform(-np.pi, 2 * np.pi).cdf)
    turn = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    reach = np.maximum(np.abs(np.cos(turn)), np.abs(np.sin(turn)))

    for label, center in ((0, 0.75), (1, 1.0)):

        def density(r, center=center):
            return norm.pdf(r, center, 0.1) * (r[:, None] * reach <= 1).mean(axis=1)

        assert_follows(radius[y == label], numerical_cdf(density, 0, np.sqrt(2)))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("label", [0, 1])
def test_curves_follow_their_density(name, label):
    X, y = sample(name)
    x, height = X[y == label].T
    curve = CURVES[name][label]

    def below(t, level):
        return norm.cdf(level, curve(t), 0.1)

    assert_follows(x, numerical_cdf(lambda t: below(t, 1) - below(t, -1), -1, 1))
    rank = (below(x, height) - below(x, -1)) / (below(x, 1) - below(x, -1))
    assert_follows(rank, uniform.cdf)


def test_curves_are_the_stated_ones():
    t = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    assert_allclose(cosine(t), [-1, 0, 1, 0, -1], atol=1e-15)
    assert_allclose(sine(t), [0, -1, 0, 1, 0], atol=1e-15)
    assert_array_equal(line(t), t)
    assert_array_equal(cubic(t), [-1, -0.125, 0, 0.125, 1])


@pytest.mark.parametrize("bounded", [False, True])
def test_gaussian_xor_follows_its_density(bounded):
    X, y = sample("gaussian_xor", bounded)
    # Rows of class 0 change the sign of their second feature, and are then as those of class 1.
    X = X * np.stack([np.ones(len(y)), 2 * y - 1], axis=1)
    X *= np.sign(X.sum(axis=1, keepdims=True))  # all around [0.5, 0.5], but for 1 row in 400
    high = 1.0 if bounded else np.inf
    mass = norm.cdf(high, 0.5, 0.25)
    center = X[(X > 0).all(axis=1)]
    zero = norm.cdf(0, 0.5, 0.25)
    for column in center.T:
        # Of the other Gaussian, 0.05 % of the rows reach the quadrant.
        assert (
            kstest(column, lambda t: (norm.cdf(t, 0.5, 0.25) - zero) / (mass - zero)).statistic
            < 4e-3
        )
    if not bounded:
        assert (X**2).mean() == pytest.approx(0.25 + 0.0625, rel=5e-3)
        assert (X[:, 0] * X[:, 1]).mean() == pytest.approx(0.25, rel=5e-3)


@pytest.mark.parametrize("n_features", [1, 2, 7])
def test_trunk_follows_its_density(n_features):
    X, y = make_trunk(50_000, n_features, random_state=1)
    mean = [1, 0.70711, 0.57735, 0.5, 0.44721, 0.40825, 0.37796][:n_features]
    noise = X - np.outer(1 - 2 * y, mean)
    for column in noise.T:
        assert_follows(column, norm.cdf)
    assert_allclose(np.atleast_2d(np.cov(noise.T)), np.eye(n_features), atol=0.03)


# Posterior


def assert_class_frequencies(name, X, y, n_cells):
    """Labels are draws from the posterior, in cells of the plane and in bins of the posterior."""
    p = true_posterior(name, X)[:, 1]
    variance = p * (1 - p)
    reach = 4 if name == "trunk" else 1.2
    column = np.clip(((X / reach + 1) * 25).astype(int), 0, 49)
    for cells, least in ((50 * column[:, 0] + column[:, 1], n_cells), ((p * 40).astype(int), 38)):
        spread = np.bincount(cells, weights=variance)
        enough = spread >= 5  # about normal
        z = np.bincount(cells, weights=y - p)[enough] / np.sqrt(spread[enough])
        assert len(z) >= least
        assert np.abs(z).max() < 4.5
        assert abs((z**2).mean() - 1) < 5 * np.sqrt(2 / len(z))
        assert_rare_labels_are_rare(y[~enough[cells]], p[~enough[cells]])


def assert_rare_labels_are_rare(y, p):
    expected = np.minimum(p, 1 - p).sum()
    rare = np.count_nonzero((p > 0.5) != y)
    assert abs(rare - expected) < 5 * np.sqrt(expected) + 3


@pytest.mark.parametrize(
    ("name", "bounded", "n_cells"),
    [
        ("circle", False, 700),
        ("sinewave", False, 80),
        ("gaussian_xor", False, 300),
        ("gaussian_xor", True, 300),
        ("polynomial", False, 300),
        ("trunk", False, 600),
    ],
)
def test_posterior_is_the_class_frequency_in_cells(name, bounded, n_cells):
    assert_class_frequencies(name, *sample(name, bounded), n_cells)


def test_spiral_posterior_is_the_class_frequency_in_cells(monkeypatch):
    X, y = sample("spiral")
    # The arms are 10 standard deviations apart: about one label in 5 million is on the wrong one.
    assert_rare_labels_are_rare(y, true_posterior("spiral", X)[:, 1])
    monkeypatch.setattr(densities, "ANGLE_NOISE", 1.0)
    assert_class_frequencies("spiral", *make_spiral(400_000, random_state=0), n_cells=1000)


@each_simulation
def test_posterior_rows_sum_to_one(name):
    rng = np.random.default_rng(0)
    X = np.r_[rng.uniform(-2, 2, (1000, 2)), np.zeros((1, 2)), rng.uniform(-1e6, 1e6, (100, 2))]
    posterior = true_posterior(name, X)
    assert posterior.shape == (1101, 2)
    assert (posterior >= 0).all()
    assert_allclose(posterior.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("n_features", [1, 2, 20])
def test_trunk_posterior_is_logistic(n_features):
    X = 3 * np.random.default_rng(0).standard_normal((200, n_features))
    log_odds = 2 * sum(X[:, i] / np.sqrt(i + 1) for i in range(n_features))
    assert_allclose(true_posterior("trunk", X)[:, 0], expit(log_odds), rtol=1e-12)
    assert_array_equal(true_posterior("trunk", np.full((1, n_features), 1e300)), [[1, 0]])


def test_gaussian_xor_posterior_is_the_ratio_of_mixtures():
    X = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 2))
    mixture = [
        sum(multivariate_normal.pdf(X, np.multiply(sign, center), 0.0625) for sign in (1, -1))
        for center in ([0.5, -0.5], [0.5, 0.5])
    ]
    assert_allclose(
        true_posterior("gaussian_xor", X), (mixture / np.sum(mixture, axis=0)).T, rtol=1e-9
    )
    toy = true_posterior("gaussian_xor", [[0.5, 0.5], [0.5, -0.5], [0, 0.3], [0.15, 0.15]])
    assert_allclose(toy[:, 1], [1, 0, 0.5, np.cosh(2.4) / (np.cosh(2.4) + 1)], atol=1e-3)
    assert true_posterior("gaussian_xor", [[1e300, 1e299]])[0, 1] == 1


def test_spiral_posterior_is_the_ratio_of_wrapped_normals():
    rng = np.random.default_rng(0)
    radius, angle = rng.uniform(0, 1, 200), rng.uniform(-np.pi, np.pi, 200)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    laps = 2 * np.pi * np.arange(-5, 6)
    density = [
        norm.pdf(angle[:, None] + laps, 4 * np.pi * radius[:, None] + np.pi * k, 0.3).sum(axis=1)
        for k in (0, 1)
    ]
    expected = (density / np.sum(density, axis=0)).T
    assert_allclose(true_posterior("spiral", X), expected, rtol=1e-9)
    assert_allclose(true_posterior("spiral", -X), expected[:, ::-1], rtol=1e-9)
    # A quarter turn after radius 1/8, and half way between the arms.
    on_arm, between = [0, 0.125], [0.125, 0]
    assert_allclose(true_posterior("spiral", [on_arm, between])[:, 0], [1, 0.5], atol=1e-12)


def test_circle_and_curve_posteriors_at_hand_computed_points():
    # Half way between the two circles only the masses in the box are left.
    z_inner, z_outer = 0.99823, 0.77529
    at_middle = true_posterior("circle", [[0.875, 0], [0, -0.875], [0.7, 0.525]])[:, 0]
    assert_allclose(at_middle, z_outer / (z_inner + z_outer), rtol=1e-5)
    # At x_1 = 0.5 the cosine is 0 and the sine 1; the log odds are linear in the height.
    heights = np.array([0.4, 0.5, 0.6])
    at_half = true_posterior("sinewave", np.c_[np.full(3, 0.5), heights])[:, 1]
    assert_allclose(at_half, expit((2 * heights - 1) / 0.02), rtol=1e-9)
    # Line and cubic cross at 0.
    z_line, z_cubic = 0.96011, 0.98609
    crossing = true_posterior("polynomial", [[0, 0], [0, 0.3]])[:, 0]
    assert_allclose(crossing, z_cubic / (z_line + z_cubic), rtol=1e-5)


def test_masses_in_the_box_are_integrated_to_the_stated_error():
    nodes, weights = np.polynomial.legendre.leggauss(300)
    for mean in RADII:
        # r = 1 / cos(u) makes the integrand smooth: the arc in the box is 1 - 4 u / pi.
        u = (nodes + 1) * np.pi / 8
        outer = norm.pdf(1 / np.cos(u), mean, 0.1) * np.tan(u) / np.cos(u) * (1 - 4 * u / np.pi)
        exact = norm.cdf(1, mean, 0.1) + np.pi / 8 * weights @ outer
        assert circle_mass(mean) == pytest.approx(exact, abs=1e-10)
    for curve in (cosine, sine, cubic):
        inside = norm.cdf(1, curve(nodes), 0.1) - norm.cdf(-1, curve(nodes), 0.1)
        assert curve_mass(curve) == pytest.approx(0.5 * weights @ inside, abs=1e-10)
    # Half of E|noise| is lost at each end of the line.
    assert curve_mass(line) == pytest.approx(1 - 0.1 / np.sqrt(2 * np.pi), abs=1e-10)


@pytest.mark.parametrize("name", ["circle", "sinewave", "polynomial"])
@pytest.mark.parametrize("label", [0, 1])
def test_masses_in_the_box_are_shares_of_unbounded_rows(name, label):
    n = 100_000
    X = SIMULATIONS[name].draw(np.full(n, label), np.random.RandomState(0))
    share = (np.abs(X) <= 1).all(axis=1).mean()
    mass = circle_mass(RADII[label]) if name == "circle" else curve_mass(CURVES[name][label])
    assert abs(share - mass) < 4 * np.sqrt(mass * (1 - mass) / n)


@pytest.mark.parametrize("name", ["spiral", "circle", "sinewave", "polynomial"])
def test_the_prior_is_given_where_no_class_has_rows(name):
    outside = [[1.001, 0.2], [0.2, -1.001], [-5, 5], [1e300, 1e300]]
    assert_array_equal(true_posterior(name, outside), np.full((4, 2), 0.5))
    corner_and_center = true_posterior("spiral", [[0.9, 0.9], [0, 0]])
    assert_array_equal(corner_and_center, np.full((2, 2), 0.5))


# Spheres


def test_spheres():
    X = sample_sphere(20_000, 3, 2.5, random_state=0)
    assert_allclose(np.linalg.norm(X, axis=1), 2.5)
    for column in X.T:  # Archimedes: each coordinate is uniform in three dimensions
        assert_follows(column, uniform(-2.5, 5).cdf)
    plane = sample_sphere(20_000, 2, 1.0, random_state=0)
    assert_follows(np.arctan2(plane[:, 1], plane[:, 0]), uniform(-np.pi, 2 * np.pi).cdf)
    ends = sample_sphere(10_000, 1, 3.0, random_state=0)
    assert_allclose(np.abs(ends), 3.0)
    assert abs((ends > 0).mean() - 0.5) < 0.02
    assert_array_equal(sample_sphere(5, 4, 0, random_state=0), np.zeros((5, 4)))
    assert_array_equal(
        sample_sphere(5, 4, 2, random_state=0), 2 * sample_sphere(5, 4, 1, random_state=0)
    )


# Images


def test_circle_has_the_pixels_of_the_gauss_circle_problem():
    inside = draw_ellipses(np.array([[50.0, 40.0]]), 10.0, 100)[0]
    assert inside.sum() == 317  # whole points with p^2 + q^2 <= 100
    rows, columns = np.nonzero(inside)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (40, 60, 30, 50)
    assert inside[56, 48]  # 6^2 + 8^2 = 100: the edge belongs to it
    assert not inside[57, 48]


def test_ellipse_axis_is_along_the_rows():
    # By hand for axis 3: a row of 21 pixels, then twice 19, 15 and 1.
    for axis, area in ((3.0, 91), (10.0, 317), (30.0, pytest.approx(np.pi * 300, rel=0.01))):
        inside = draw_ellipses(np.array([[50.0, 50.0]]), axis, 100)[0]
        rows, columns = np.nonzero(inside)
        assert (rows.min(), rows.max()) == (50 - axis, 50 + axis)
        assert (columns.min(), columns.max()) == (40, 60)
        assert inside.sum() == area
    thin = draw_ellipses(np.array([[50.0, 50.0], [50.3, 50.0]]), 0.01, 100)
    # On a row of pixels 21, ends included; between two rows none.
    assert_array_equal(thin.sum(axis=(1, 2)), [21, 0])


def test_rectangle_is_20_rows_by_50_columns():
    for center in ([50.0, 40.0], [50.3, 40.9]):
        rows, columns = np.nonzero(draw_rectangles(np.array([center]), 100)[0])
        assert len(rows) == 1000
        assert (np.ptp(rows), np.ptp(columns)) == (19, 49)
    exact = draw_rectangles(np.array([[50.0, 40.0]]), 100)[0]
    assert exact[40, 15]  # the lower end belongs to it
    assert not exact[60].any()  # the upper end does not
    assert not exact[:, 65].any()
    corner = draw_rectangles(np.array([[0.0, 0.0]]), 100)[0]
    assert corner.sum() == 10 * 25


def test_images_equal_their_formula_by_loop():
    images, y = make_shape_images(6, size=30, random_state=2)
    rng = np.random.RandomState(2)
    labels = np.arange(6) % 2
    rng.shuffle(labels)
    centers = rng.uniform(0, 30, size=(6, 2))
    assert_array_equal(y, labels)
    for image, label, (c1, c2) in zip(images, y, centers, strict=True):
        for w1 in range(30):
            for w2 in range(30):
                if label == 0:
                    inside = (w1 - c1) ** 2 + (w2 - c2) ** 2 <= 100
                else:
                    inside = c1 - 10 <= w1 < c1 + 10 and c2 - 25 <= w2 < c2 + 25
                assert image[w1, w2] == (127 if inside else 0)


def test_shape_images_and_the_shift_of_intensity():
    images, y = make_shape_images(401, random_state=0)
    assert images.shape == (401, 100, 100)
    assert images.dtype == np.float32
    assert_array_equal(np.bincount(y), [201, 200])
    assert_array_equal(np.unique(images), [0, 127])
    areas = (images > 0).sum(axis=(1, 2))
    assert areas[y == 0].max() <= 325
    assert areas[y == 1].max() == 1000
    # A centre that is uniform along an axis keeps, of a segment of half-length h at most, the
    # share 1 - h / (2 * 100) of it on average.
    kept = (1 - 10 / 200) * (1 - 25 / 200)
    assert areas[y == 1].mean() == pytest.approx(1000 * kept, rel=0.05)
    brighter, _ = make_shape_images(401, intensity=254, random_state=0)
    assert_array_equal(brighter, 2 * images)
    assert make_shape_images(4, intensity=0, random_state=0)[0].max() == 0
    assert make_shape_images(1, random_state=0)[0].shape == (1, 100, 100)


def test_mixed_images_run_from_rectangle_to_circle():
    rectangle, half, quarter, circle = (
        make_mixed_images(50, epsilon=e, random_state=0) for e in (0, 0.5, 0.25, 1)
    )
    assert half.dtype == np.float32
    assert (rectangle > 0).sum(axis=(1, 2)).max() == 1000
    assert (circle > 0).sum(axis=(1, 2)).max() <= 325
    assert_allclose(half, (rectangle + circle) / 2)
    assert_allclose(quarter, 0.75 * rectangle + 0.25 * circle)
    assert_array_equal(np.unique(half), [0, 63.5, 127])
    assert_array_equal(np.unique(circle), [0, 127])
    centers = np.random.RandomState(0).uniform(0, 100, size=(2, 50, 2))
    assert_array_equal(circle > 0, draw_ellipses(centers[0], 10.0, 100))
    assert_array_equal(rectangle > 0, draw_rectangles(centers[1], 100))


def test_ellipse_images_and_the_shift_of_axis():
    areas = [
        (make_ellipse_images(50, axis=axis, random_state=0) > 0).sum(axis=(1, 2))
        for axis in (0.01, 5, 10, 20, 40)
    ]
    assert (np.diff(areas, axis=0) >= 0).all()
    assert areas[0].sum() < 50
    assert areas[-1].max() == pytest.approx(np.pi * 400, rel=0.03)
    centers = np.random.RandomState(0).uniform(0, 100, size=(50, 2))
    images = make_ellipse_images(50, axis=10, intensity=50, random_state=0)
    assert_array_equal(images, 50.0 * draw_ellipses(centers, 10.0, 100))


@pytest.mark.parametrize("make", IMAGES)
def test_images_repeat_with_their_seed(make):
    def images(seed):
        made = make(20, size=40, random_state=seed)
        return made[0] if isinstance(made, tuple) else made

    assert images(0).shape == (20, 40, 40)
    assert_array_equal(images(0), images(0))
    assert (images(0) != images(1)).any()


# Surface and bad input


def test_public_names():
    functions = {name for name, _ in inspect.getmembers(simulations, inspect.isfunction)}
    assert functions == set(simulations.__all__)
    assert set(MAKERS) == set(SIMULATIONS)


@pytest.mark.parametrize("make", [*MAKERS.values(), *IMAGES])
@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "10", True, None])
def test_bad_number_of_samples(make, n_samples):
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1; got"):
        make(n_samples)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_trunk(10, 0), "n_features must be a whole number of at least 1; got 0"),
        (lambda: true_posterior("moons", [[0, 0]]), "'spiral', .*'trunk'; got 'moons'"),
        (lambda: true_posterior(None, [[0, 0]]), "name must be one of"),
        (
            lambda: true_posterior("circle", [[0, 0, 0]]),
            "X must have 2 columns for the 'circle' simulation; it has 3",
        ),
        (lambda: true_posterior("trunk", [0, 0]), "Expected 2D array"),
        (lambda: true_posterior("spiral", [[0, np.nan]]), "contains NaN"),
        (lambda: true_posterior("trunk", np.empty((0, 2))), "0 sample"),
        (lambda: sample_sphere(0, 2, 1.0), "n must be a whole number"),
        (lambda: sample_sphere(5, 0, 1.0), "d must be a whole number"),
        (lambda: sample_sphere(5, 2, -1.0), "radius must be a finite number of at least 0; got -1"),
        (lambda: sample_sphere(5, 2, np.inf), "radius must be a finite number"),
        (lambda: make_shape_images(5, intensity=-1), "intensity must be a finite number"),
        (lambda: make_shape_images(5, size=0), "size must be a whole number"),
        (lambda: make_mixed_images(5, epsilon=1.5), "epsilon must lie between 0 and 1; got 1.5"),
        (lambda: make_mixed_images(5, epsilon=np.nan), "epsilon must lie between"),
        (lambda: make_ellipse_images(5, axis=0), "axis must be a finite number above 0; got 0"),
        (lambda: make_circle(5, random_state="seed"), "cannot be used to seed"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
