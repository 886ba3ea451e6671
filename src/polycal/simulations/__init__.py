"""Simulated data with known posteriors: six tables, images of shapes, and spheres."""

from .images import make_ellipse_images, make_mixed_images, make_shape_images
from .spheres import sample_sphere
from .tables import (
    make_circle,
    make_gaussian_xor,
    make_polynomial,
    make_sinewave,
    make_spiral,
    make_trunk,
)
from .truth import true_posterior

__all__ = [
    "make_circle",
    "make_ellipse_images",
    "make_gaussian_xor",
    "make_mixed_images",
    "make_polynomial",
    "make_shape_images",
    "make_sinewave",
    "make_spiral",
    "make_trunk",
    "sample_sphere",
    "true_posterior",
]
