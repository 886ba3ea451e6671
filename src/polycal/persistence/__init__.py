"""Model files: ``model.save(path)`` and ``polycal.load(path)``.

One file holds the arrays (in the safetensors format) and a JSON manifest. It is read without
pickle: a file can fill the fields that polycal knows, and can name no code to run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .errors import (
    AlteredFileError,
    ModelFileError,
    NewerFormatError,
    NotAModelFileError,
    TruncatedFileError,
    UnknownTypeError,
    WrongModuleError,
)

__all__ = [
    "AlteredFileError",
    "ModelFileError",
    "NewerFormatError",
    "NotAModelFileError",
    "TruncatedFileError",
    "UnknownTypeError",
    "WrongModuleError",
    "load",
    "save",
]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; see ``GeodesicCalibrator.save``."""
    from . import (
        model as _model,  # slow to import, and needed only to save and load
    )

    _model.save(model, path)


def load(
    path: str | os.PathLike[str],
    module: Any = None,
    *,
    trusted: Sequence[Any] = (),
    isolate: bool = False,
) -> Any:
    """The model that ``model.save(path)`` wrote; its predictions are the same to the last bit.

    Nothing in the file is run as code, and pickle is not used. What a file says is checked
    before it is used, with one exception: the trees of LightGBM, XGBoost and CatBoost are read
    by these libraries, which can crash on content that was forged together with its checksum. Use
    ``isolate=True`` for a file that you do not trust.

    Parameters
    ----------
    path : str or path
        File that ``save`` wrote.
    module : torch.nn.Module, (encoder, head), TorchParent, skorch net or Keras model, optional
        For a model of a network, whose weights the file holds and whose code it does not: the
        network as it was given to ``fit``, trained or not. It is copied.
    trusted : list of str or type, default=()
        Types beyond those of scikit-learn that a parent may be made of, such as your own
        transformers. The error about an unknown type names it.
    isolate : bool, default=False
        Whether a parent of LightGBM, XGBoost or CatBoost is read in a child process first, which
        predicts some odd rows with it. If the child crashes, or takes a minute or several GiB of
        memory, the file is an error and this process is unharmed. Takes some seconds; without
        effect on other parents, whose trees polycal checks itself.

    Returns
    -------
    object
        The fitted estimator, of the class that was saved.

    Raises
    ------
    ModelFileError
        One of ``NotAModelFileError``, ``NewerFormatError``, ``TruncatedFileError``,
        ``AlteredFileError``, ``UnknownTypeError`` and ``WrongModuleError``.

    Examples
    --------
    >>> import tempfile
    >>> import polycal
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = polycal.KernelDensityForest(20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/iris.polycal")
    ...     loaded = polycal.load(f"{folder}/iris.polycal")
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    from . import model as _model

    return _model.load(path, module, trusted, isolate)
