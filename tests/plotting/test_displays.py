"""Displays: the numbers by hand, and the picture shows the numbers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from polycal import GeodesicCalibrator, plotting
from polycal.metrics import expected_calibration_error
from polycal.plotting import (
    DistanceDisplay,
    KernelMatrixDisplay,
    PosteriorMapDisplay,
    ReliabilityDisplay,
    TrustDisplay,
)
from polycal.plotting.reliability import wilson_interval
from tests.toys.models import small_forest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def plane():
    """Two overlapping blobs with string labels, and a calibrator of two features."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 0.6, (60, 2)), rng.normal(1, 0.6, (60, 2))])
    y = np.repeat(["left", "right"], 60)
    return X, y, GeodesicCalibrator(small_forest(), random_state=0).fit(X, y)


class Constant:
    """Answers one row of probabilities everywhere."""

    classes_ = np.array(["b", "c", "a"])  # unsorted on purpose

    def __init__(self, row):
        self.row = row

    def predict_proba(self, X):
        return np.tile(self.row, (len(X), 1))


class Slope:
    """P(class 1) is the first feature, clipped."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        p = np.clip(np.asarray(X)[:, 0], 0, 1)
        return np.column_stack([1 - p, p])


def texts_apart(figure):
    """No two visible texts of the figure overlap; returns the texts with their boxes."""
    figure.canvas.draw()
    # Tick labels outside the limits exist, but are not drawn.
    hidden = {
        id(label)
        for axis in figure.findobj(matplotlib.axis.Axis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    renderer = figure.canvas.get_renderer()
    boxes = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]
    shown = [
        (t, b) for t, b in boxes if not any(np.isnan(b.extents)) and b.width > 0 and b.height > 0
    ]
    for i, (text, box) in enumerate(shown):
        for other, box2 in shown[i + 1 :]:
            inner = matplotlib.transforms.Bbox.intersection(box, box2)
            assert inner is None or inner.width < 1 or inner.height < 1, (text, other)
    return shown


def inside(figure, words):
    """The named texts are drawn, and not cut by the figure's edge."""
    shown = dict(texts_apart(figure))
    for word in words:
        (box,) = [box for text, box in shown.items() if word in text]
        assert box.x0 >= -1, word
        assert box.y0 >= -1, word
        assert box.x1 <= figure.bbox.width + 1, word
        assert box.y1 <= figure.bbox.height + 1, word


def test_public_names():
    assert plotting.__all__ == [
        "DistanceDisplay",
        "KernelMatrixDisplay",
        "PosteriorMapDisplay",
        "ReliabilityDisplay",
        "TrustDisplay",
    ]


def test_matplotlib_is_imported_by_plot_only():
    code = (
        "import sys, polycal, polycal.plotting as p;"
        "d = p.TrustDisplay.from_predictions([1.0], [0.0]);"
        "assert 'matplotlib' not in sys.modules, 'too early';"
        "sys.modules['matplotlib.pyplot'] = None\n"
        "try: d.plot()\n"
        "except ModuleNotFoundError as e: assert 'polycal[plot]' in str(e)\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------ reliability

# Confidences 0.9 (right), 0.7 (wrong), 0.7 (right), 0.5 (right: the edge closes bin 2 of 4)
Y = [0, 1, 1, 0]
P = [[0.9, 0.1], [0.7, 0.3], [0.3, 0.7], [0.5, 0.5]]


def test_reliability_by_hand():
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=4)
    np.testing.assert_array_equal(display.bin_edges, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(display.counts, [0, 1, 2, 1])
    np.testing.assert_allclose(display.confidence, [np.nan, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(display.accuracy, [np.nan, 1, 0.5, 1])
    # (1/4) (1 * 0.5 + 2 * 0.2 + 1 * 0.1)
    assert display.ece == pytest.approx(0.25)
    assert display.ece == expected_calibration_error(Y, P, 4)


def test_wilson_by_hand():
    # 8 of 10: the interval of textbooks; 0 of 5 ends at z^2 / (n + z^2), z = 1.959964
    lower, upper = wilson_interval(np.array([0.8, 0.0, 1.0]), np.array([10.0, 5, 5]), 0.95)
    np.testing.assert_allclose(lower, [0.4901625, 0, 5 / 8.8414588], atol=1e-7)
    np.testing.assert_allclose(upper, [0.9433178, 3.8414588 / 8.8414588, 1], atol=1e-7)


def test_wilson_covers():
    rng = np.random.default_rng(0)
    hits = rng.binomial(40, 0.9, 4000)
    lower, upper = wilson_interval(hits / 40, np.full(4000, 40.0), 0.9)
    assert 0.87 < np.mean((lower <= 0.9) & (upper >= 0.9)) < 0.95


def test_reliability_weight_zero_is_no_row():
    weighted = ReliabilityDisplay.from_predictions(Y, P, n_bins=4, sample_weight=[1, 0, 1, 1])
    left_out = ReliabilityDisplay.from_predictions(
        np.delete(Y, 1), np.delete(P, 1, axis=0), n_bins=4
    )
    for key in ("counts", "confidence", "accuracy", "lower", "upper", "ece"):
        np.testing.assert_allclose(getattr(weighted, key), getattr(left_out, key))


def test_reliability_maps_labels():
    # "a" is column 2 of the model, whatever the alphabet says
    display = ReliabilityDisplay.from_estimator(
        Constant([0.1, 0.1, 0.8]), np.zeros((4, 1)), ["a", "a", "a", "c"], n_bins=5
    )
    assert display.name == "Constant"
    np.testing.assert_allclose(display.accuracy[3], 0.75)
    with pytest.raises(ValueError, match=r"holds \['z'\] too"):
        ReliabilityDisplay.from_estimator(Constant([1, 0, 0]), np.zeros((1, 1)), ["z"])


def test_reliability_plot():
    display = ReliabilityDisplay.from_predictions(Y, P, n_bins=4, name="toy")
    assert display.plot() is display
    bars = display.ax_.patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], [1, 0.5, 1])
    np.testing.assert_allclose([bar.get_x() for bar in bars], [0.25, 0.5, 0.75])
    counts = [bar.get_height() for bar in display.ax_counts_.patches]
    np.testing.assert_array_equal(counts, [1, 2, 1])
    (errors,) = [c for c in display.ax_.containers if hasattr(c, "has_yerr")]
    np.testing.assert_allclose(errors[0].get_xdata(), [0.5, 0.7, 0.9])
    ends = np.array([segment[:, 1] for segment in errors[2][0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([display.lower, display.upper], axis=1)[1:])
    assert "toy: ECE 0.250" in display.ax_.get_title()
    inside(display.figure_, ["toy", "confidence (", "rows", "perfect", "95 % interval"])


def test_reliability_in_given_axes():
    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = ReliabilityDisplay.from_predictions(Y, P).plot(axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    free = plt.figure().add_axes((0.2, 0.4, 0.7, 0.4))
    display.plot(free)
    assert display.ax_counts_.get_position().y1 < free.get_position().y0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [0, 1, 2, 0]}, "y must hold a column"),
        ({"P": [[0.9, 0.3]] * 4}, "sum to 1"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"level": 1}, "level must lie"),
    ],
)
def test_reliability_errors(change, words):
    with pytest.raises(ValueError, match=words):
        ReliabilityDisplay.from_predictions(**({"y": Y, "P": P} | change))


# ---------------------------------------------------------- posterior map


def test_posterior_map_by_hand():
    X = np.array([[0.0, 10.0], [1.0, 30.0]])
    display = PosteriorMapDisplay.from_estimator(Slope(), X, resolution=5, margin=0.5)
    np.testing.assert_allclose(display.x0, [-0.5, 0, 0.5, 1, 1.5])
    np.testing.assert_allclose(display.x1, [0, 10, 20, 30, 40])
    assert display.proba.shape == (5, 5, 2)
    for row in display.proba:  # the first feature runs along a row
        np.testing.assert_allclose(row[:, 1], [0, 0, 0.5, 1, 1])
    assert display.points is None


def test_posterior_map_draws_one_class():
    X = np.array([[0.0, 10.0], [1.0, 30.0]])
    display = PosteriorMapDisplay.from_estimator(Slope(), X, [1, 0], resolution=5)
    assert display.plot(class_label=1) is display
    (image,) = display.ax_.images
    np.testing.assert_allclose(image.get_array(), display.proba[:, :, 1])
    np.testing.assert_allclose(image.get_extent(), [-0.75, 1.75, -5, 45])
    assert image.get_clim() == (0, 1)
    drawn = [points.get_offsets().tolist() for points in display.ax_.collections]
    assert drawn == [[[1.0, 30.0]], [[0.0, 10.0]]]  # class 0, then class 1
    inside(display.figure_, ["feature 1", "feature 2", "probability of class 1", "Slope"])


def test_posterior_map_draws_the_most_probable():
    P = [[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    display = PosteriorMapDisplay.from_predictions([0, 1], [0, 1], P, classes=["u", "v"]).plot()
    (image,) = display.ax_.images
    blue, orange = (matplotlib.colors.to_rgb(c) for c in ("#0072B2", "#D55E00"))
    np.testing.assert_allclose(image.get_array()[0, 0], blue)
    np.testing.assert_allclose(image.get_array()[0, 1], (1 + np.array(blue)) / 2)
    np.testing.assert_allclose(image.get_array()[1, 0], 1)  # no class leads: white
    np.testing.assert_allclose(image.get_array()[1, 1], orange)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["class u", "class v"]


def test_posterior_map_of_an_estimator(plane):
    X, y, model = plane
    display = PosteriorMapDisplay.from_estimator(model, X, y, resolution=7, margin=5)
    grid = [[display.x0[2], display.x1[4]]]
    np.testing.assert_allclose(display.proba[4, 2], model.predict_proba(grid)[0])
    np.testing.assert_allclose(display.proba[0, 0], model.priors_)  # far: the prior
    assert (display.classes[display.point_classes] == y).all()
    texts_apart(display.plot().figure_)


def test_posterior_map_frame():
    pandas = pytest.importorskip("pandas")
    seen = []

    class Named(Slope):
        def predict_proba(self, X):
            seen.append(list(X.columns))
            return super().predict_proba(X)

    frame = pandas.DataFrame({"age": [0.0, 1.0], "dose": [0.0, 1.0]})
    display = PosteriorMapDisplay.from_estimator(Named(), frame, resolution=2)
    assert seen == [["age", "dose"]]
    assert display.plot().ax_.get_ylabel() == "dose"


def test_posterior_map_errors():
    with pytest.raises(ValueError, match="X must have 2 features; it has 3"):
        PosteriorMapDisplay.from_estimator(Slope(), np.zeros((4, 3)))
    with pytest.raises(ValueError, match="X must be finite"):
        PosteriorMapDisplay.from_estimator(Slope(), [[0.0, np.nan]])
    make = PosteriorMapDisplay.from_predictions
    with pytest.raises(ValueError, match="one row for each of the 2 x 2 points"):
        make([0, 1], [0, 1], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="x0 must hold two or more rising"):
        make([1, 0], [0, 1], [[0.5, 0.5]] * 4)
    with pytest.raises(ValueError, match="both or neither"):
        make([0, 1], [0, 1], [[0.5, 0.5]] * 4, X=[[0, 0]])
    with pytest.raises(ValueError, match=r"class_label must be one of the classes \[0, 1\]"):
        make([0, 1], [0, 1], [[0.5, 0.5]] * 4).plot(class_label="x")
    with pytest.raises(ValueError, match="more than 8 classes"):
        make([0, 1], [0, 1], np.full((4, 9), 1 / 9)).plot()


# --------------------------------------------------------------- distance


def test_distance_by_hand():
    P = [[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]]
    display = DistanceDisplay.from_predictions(
        [2.0, 1.0, 1.0], {"m": P, "n": [[0.6, 0.4]] * 3}, prior=[0.3, 0.7]
    )
    np.testing.assert_array_equal(display.distance, [1, 2])
    np.testing.assert_allclose(display.confidence["m"], [0.9, 0.5])
    np.testing.assert_allclose(display.confidence["n"], [0.6, 0.6])
    assert display.prior == 0.7


def test_distance_asks_on_an_ellipsoid_of_the_data():
    asked = []

    class Recorder(Slope):
        def predict_proba(self, X):
            asked.append(X)
            return super().predict_proba(X)

    # Centre (1, 10, 7), deviations (1, 10) and their mean for the constant one
    X = [[0.0, 0.0, 7.0], [2.0, 20.0, 7.0], [0.0, 20.0, 7.0], [2.0, 0.0, 7.0]]
    display = DistanceDisplay.from_estimator(Recorder(), X, radii=[0, 0.5, 3], n_points=50)
    scale = np.array([1, 10, 11 / 3])
    distance = np.linalg.norm((asked[0] - [1, 10, 7]) / scale, axis=1)
    np.testing.assert_allclose(distance, np.repeat([0, 0.5, 3], 50) * np.sqrt(2), atol=1e-12)
    np.testing.assert_array_equal(display.distance, [0, 0.5, 3])
    assert display.data_end == 1
    assert display.prior is None
    DistanceDisplay.from_estimator(Recorder(), X, radii=[2], n_points=9, standardize=False)
    distance = np.linalg.norm(asked[1] - [1, 10, 7], axis=1)
    np.testing.assert_allclose(distance, 2 * np.sqrt(101))


def test_distance_of_a_calibrator_ends_at_the_prior(plane):
    X, _, model = plane
    models = {"mine": model, "sure": Slope()}
    display = DistanceDisplay.from_estimator(models, X, radii=[0.3, 50], n_points=40)
    assert display.prior == model.priors_.max() == 0.5
    assert display.confidence["mine"][1] == pytest.approx(0.5, abs=1e-6)
    assert display.confidence["sure"][1] > 0.95


def test_distance_plot():
    display = DistanceDisplay.from_predictions(
        [0.0, 1.0, 2.0],
        {"m": [[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], "n": [[0.6, 0.4]] * 3},
        prior=[0.3, 0.7],
        data_end=1.5,
    )
    assert display.plot() is display
    m, n, prior, end = display.ax_.lines
    np.testing.assert_allclose(m.get_ydata(), [0.5, 1, 0.8])
    np.testing.assert_allclose(n.get_ydata(), 0.6)
    np.testing.assert_allclose(m.get_xdata(), [0, 1, 2])
    assert m.get_linestyle() != n.get_linestyle()  # told apart in grey
    assert set(prior.get_ydata()) == {0.7}
    assert set(end.get_xdata()) == {1.5}
    inside(display.figure_, ["distance from", "mean highest", "highest prior (0.70)", "farthest"])


def test_distance_errors():
    make = DistanceDisplay.from_predictions
    with pytest.raises(ValueError, match="at least one model"):
        make([1.0], {})
    with pytest.raises(ValueError, match=r"each of the 1 rows of P \(model\)"):
        make([1.0, 2.0], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="finite and not negative"):
        make([-1.0], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="priors must hold one probability"):
        make([1.0], [[0.5, 0.5]], prior=[1.0])
    with pytest.raises(ValueError, match="radii must rise"):
        DistanceDisplay.from_estimator(Slope(), [[0.0, 0], [1, 1]], radii=[2, 1])
    for standardize in (True, False):
        with pytest.raises(ValueError, match="all its rows are equal"):
            DistanceDisplay.from_estimator(Slope(), np.ones((3, 2)), standardize=standardize)


# ------------------------------------------------------------------ trust


def test_trust_by_hand():
    # Edges 0.25, 0.5, 0.75: each belongs to the bin that it closes; 0 to the first
    display = TrustDisplay.from_predictions([1.0, 0.5, 0.8, 0.75], [0.0, 0.25, 0.8], n_bins=4)
    np.testing.assert_allclose(display.id_share, [0, 0.25, 0.25, 0.5])
    np.testing.assert_allclose(display.ood_share, [2 / 3, 0, 0, 1 / 3])
    assert display.id_trusted == 0.75  # 0.5 is not above 1/2
    assert display.ood_trusted == pytest.approx(1 / 3)
    # 12 pairs: 8 above the two low ones; against 0.8: 1.0 wins, 0.8 ties
    assert display.auroc == pytest.approx(9.5 / 12)


def test_trust_plot():
    display = TrustDisplay.from_predictions([1.0, 0.5, 0.8, 0.75], [0.0, 0.25, 0.8], n_bins=4)
    assert display.plot() is display
    outside, inner = display.ax_.containers
    np.testing.assert_allclose([bar.get_height() for bar in outside], display.ood_share)
    np.testing.assert_allclose([bar.get_height() for bar in inner], display.id_share)
    np.testing.assert_allclose([bar.get_x() for bar in inner], [0.125, 0.375, 0.625, 0.875])
    assert outside[0].get_hatch() != inner[0].get_hatch()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[-1] == "AUROC 0.792"
    inside(display.figure_, ["in-distribution weight", "share", "ID (4 rows, 75% above 0.5)"])


def test_trust_of_an_estimator(plane):
    X, _, model = plane
    display = TrustDisplay.from_estimator(model, X, X + 100)
    assert display.ood_share[0] == 1
    assert display.auroc > 0.95
    assert display.name == "GeodesicCalibrator"


def test_trust_errors(plane):
    X, _, model = plane
    with pytest.raises(ValueError, match="X_ood must hold at least one row"):
        TrustDisplay.from_estimator(model, X, X[:0])
    with pytest.raises(ValueError, match="ood_scores must hold at least one"):
        TrustDisplay.from_predictions([1.0], [])
    with pytest.raises(ValueError, match="id_scores must lie between 0 and 1"):
        TrustDisplay.from_predictions([-3.0], [0.0])
    with pytest.raises(TypeError, match="method in_distribution; Slope has none"):
        TrustDisplay.from_estimator(Slope(), X, X)


# ---------------------------------------------------------- kernel matrix

K = np.array(
    [[1.0, 0.1, 0.7, 0.2], [0.1, 1.0, 0.3, 0.4], [0.7, 0.3, 1.0, 0.0], [0.2, 0.4, 0.0, 1.0]]
)


def test_kernel_matrix_by_hand():
    display = KernelMatrixDisplay.from_predictions(K, ["b", "a", "b", "a"])
    np.testing.assert_array_equal(display.order, [1, 3, 0, 2])
    np.testing.assert_array_equal(display.boundaries, [0, 2, 4])
    np.testing.assert_allclose(
        display.matrix, [[1, 0.4, 0.1, 0.3], [0.4, 1, 0.2, 0], [0.1, 0.2, 1, 0.7], [0.3, 0, 0.7, 1]]
    )
    assert display.within == pytest.approx((0.4 + 0.7) / 2)
    assert display.between == pytest.approx((0.1 + 0.3 + 0.2 + 0.0) / 4)
    single = KernelMatrixDisplay.from_predictions([[1.0]], [3])
    assert np.isnan(single.within)
    assert np.isnan(single.between)


def test_kernel_matrix_plot():
    display = KernelMatrixDisplay.from_predictions(K, ["b", "a", "b", "a"])
    assert display.plot() is display
    (image,) = display.ax_.images
    np.testing.assert_allclose(image.get_array(), display.matrix)
    across, down = display.ax_.lines  # one boundary, both ways
    assert set(across.get_ydata()) == {2}
    assert set(down.get_xdata()) == {2}
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b"]
    np.testing.assert_allclose(display.ax_.get_yticks(), [1, 3])
    inside(display.figure_, ["class of the row", "class of the column", "similarity\n0.55"])


def test_kernel_matrix_names_do_not_touch():
    y = np.concatenate([np.arange(30), np.repeat(99, 170)])  # thirty classes of one row
    display = KernelMatrixDisplay.from_predictions(np.eye(200), y).plot()
    assert display.ax_.get_yticklabels()[-1].get_text() == "99"
    assert len(display.ax_.lines) == 60
    texts_apart(display.figure_)


def test_kernel_matrix_of_an_estimator(plane):
    X, y, model = plane
    rows = np.array([0, 100, 5, 70, 90])
    display = KernelMatrixDisplay.from_estimator(model, X[rows], y[rows])
    ordered = rows[[0, 2, 1, 3, 4]]
    np.testing.assert_array_equal(display.matrix, model.similarity(X[ordered], X[ordered]))
    assert display.within > display.between


def test_kernel_matrix_errors():
    make = KernelMatrixDisplay.from_predictions
    with pytest.raises(ValueError, match="K must be square"):
        make(K[:2], [0, 1])
    with pytest.raises(ValueError, match="y must hold one class for each of the 4 rows"):
        make(K, [0, 1])
    with pytest.raises(ValueError, match="no distance"):
        make(3 * K, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="K must lie between"):
        make(np.full((2, 2), np.nan), [0, 1])
