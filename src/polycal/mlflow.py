"""MLflow flavour of fitted models: ``save_model``, ``log_model``, ``load_model``.

The model is polycal's own file, which runs no code when it is opened. Beside it stands what MLflow
needs to serve it: signature, requirements, and the loader below. MLflow itself imports what the
file ``MLmodel`` names, so load folders of MLflow only from those whom you trust.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ._utils.optional import optional
from .core.roles import LEFT_OUT
from .estimators.answers import answer_columns
from .persistence import WrongModuleError, load

__all__ = ["get_default_pip_requirements", "load_model", "log_model", "save_model"]

FLAVOR_NAME = "polycal"
FILE = "model.polycal"
# Packages that an answer depends on, and the names of those whose modules are called otherwise.
ALWAYS = ("polycal", "numpy", "scipy", "scikit-learn", "numba", "skops", "pandas")
PARENTS = ("lightgbm", "xgboost", "catboost", "torch", "skorch", "keras")
# Types of MLflow by the kind of a NumPy array; any other is text.
TYPES = {"b": "boolean", "i": "long", "u": "long", "f": "double"}


def save_model(
    model: Any,
    path: Any,
    *,
    signature: Any = None,
    input_example: Any = None,
    module: str | None = None,
    trusted: Sequence[str] = (),
    mlflow_model: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Sequence[str] = (),
    code_paths: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save a fitted model as a folder that MLflow can load and serve.

    The model is loaded once, as a server would, so that what cannot be served is found here.

    Parameters
    ----------
    model : GeodesicCalibrator, KernelDensityForest or KernelDensityNetwork
        A fitted model.
    path : str or path
        The folder to make.
    signature : mlflow.models.ModelSignature, optional
        Columns of input and output. By default those of the fit, of any type, and those of the
        answer.
    input_example : DataFrame, dict or list of dict, optional
        One or some rows, stored beside the model to show what a request looks like.
    module : str, optional
        For a model of a network, whose code the file does not hold: a function without arguments
        that returns the network as ``polycal.load`` takes it, as "package.module:function".
    trusted : list of str, default=()
        Types of your own that the parent is made of; see ``polycal.load``.
    mlflow_model : mlflow.models.Model, optional
        The model to which the flavour is added; ``log_model`` gives it.
    pip_requirements : list of str or str, optional
        What has to be installed, in place of ``get_default_pip_requirements(model)``.
    extra_pip_requirements : list of str, default=()
        What has to be installed beside that.
    code_paths : list of str, optional
        Files and folders of your own code, such as that of ``module``, to store with the model.
    metadata : dict, optional
        Facts of your own, stored in the file ``MLmodel``.

    Examples
    --------
    >>> import polycal.mlflow
    >>> polycal.mlflow.save_model(model, "loans")  # doctest: +SKIP
    """
    pyfunc = optional("mlflow.pyfunc", "mlflow")
    models = optional("mlflow.models", "mlflow")
    config = {key: value for key, value in (("module", module), ("trusted", [*trusted])) if value}
    with TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        model.save(file)
        _check(file, config)
        mlflow_model = models.Model() if mlflow_model is None else mlflow_model
        facts = {"polycal_version": version("polycal"), "data": f"data/{FILE}", **config}
        mlflow_model.add_flavor(FLAVOR_NAME, **facts)
        if pip_requirements is None:
            pip_requirements = [*get_default_pip_requirements(model), *extra_pip_requirements]
        pyfunc.save_model(
            path,
            loader_module=__name__,
            data_path=str(file),
            model_config=config,
            mlflow_model=mlflow_model,
            signature=_signature(model) if signature is None else signature,
            input_example=input_example,
            pip_requirements=pip_requirements,
            code_paths=code_paths,
            metadata=metadata,
        )


def log_model(model: Any, name: str, **settings: Any) -> Any:
    """Log a fitted model to the current run of MLflow, or to a new one.

    Parameters
    ----------
    model : GeodesicCalibrator, KernelDensityForest or KernelDensityNetwork
        A fitted model.
    name : str
        Its name in MLflow.
    **settings : dict
        Arguments of ``save_model``, and of ``mlflow.models.Model.log``, such as
        ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Where the model is (``model_uri``), and facts about it.

    Examples
    --------
    >>> import polycal.mlflow
    >>> info = polycal.mlflow.log_model(model, "loans")  # doctest: +SKIP
    >>> same = polycal.mlflow.load_model(info.model_uri)  # doctest: +SKIP
    """
    log = optional("mlflow.models", "mlflow").Model.log
    return log(None, name=name, flavor=sys.modules[__name__], model=model, **settings)


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Load the model that ``save_model`` or ``log_model`` stored.

    Parameters
    ----------
    model_uri : str
        A folder, or an address of MLflow such as "models:/loans/1".
    dst_path : str, optional
        Folder to download to.

    Returns
    -------
    object
        The fitted estimator; its answers are the same to the last bit.

    Examples
    --------
    >>> import polycal.mlflow
    >>> model = polycal.mlflow.load_model("models:/loans/1")  # doctest: +SKIP
    """
    artifacts = optional("mlflow.artifacts", "mlflow")
    folder = Path(artifacts.download_artifacts(model_uri, dst_path=dst_path))
    flavors = optional("mlflow.models", "mlflow").Model.load(str(folder)).flavors
    if FLAVOR_NAME not in flavors:
        raise ValueError(
            f"{model_uri} is no model of polycal; it has the flavors {sorted(flavors)}. Use "
            "mlflow.pyfunc.load_model."
        )
    found = flavors[FLAVOR_NAME]
    return _load(folder / found["data"], found)


def get_default_pip_requirements(model: Any = None) -> list[str]:
    """List what has to be installed to load a model, in the versions that are installed here.

    Parameters
    ----------
    model : GeodesicCalibrator, KernelDensityForest or KernelDensityNetwork, optional
        A fitted model, for the library of its parent.

    Returns
    -------
    list of str
        Requirements as pip takes them, such as "numpy==2.4.1".

    Examples
    --------
    >>> from polycal.mlflow import get_default_pip_requirements
    >>> get_default_pip_requirements()[0].split("==")[0]
    'polycal'
    """
    modules = {type(part).__module__.split(".")[0] for part in _parts(model)}
    if "skorch" in modules or any(hasattr(part, "state_dict") for part in _parts(model)):
        modules.add("torch")
    names = [*ALWAYS, *(name for name in PARENTS if name in modules)]
    return [f"{name}=={version(name).partition('+')[0]}" for name in names]


class Answers:
    """What MLflow serves: rows to a frame of label, probabilities, trust weight and verdict."""

    def __init__(self, model: Any):
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """One line for each row: the columns that ``polycal predict`` writes."""
        pandas = optional("pandas", "mlflow")
        rows, index = model_input, None
        if isinstance(rows, pandas.DataFrame):
            index = rows.index
            # Types of MLflow are those of JSON; the model has its own.
            named = self.model.columns_ is not None
            rows = rows.to_dict("records") if named else rows.to_numpy()
        answer = self.model.answer(rows)
        return pandas.DataFrame(answer_columns(self.model, answer), index=index)


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> Answers:
    """What MLflow calls to serve the model."""
    return Answers(_load(Path(path), model_config or {}))


def _load(file: Path, config: dict[str, Any]) -> Any:
    name = config.get("module")
    network = None
    if name:
        home, _, function = name.partition(":")
        network = getattr(import_module(home), function)()
    return load(file, network, trusted=config.get("trusted", ()))


def _check(file: Path, config: dict[str, Any]) -> None:
    """Raise for what a server could not load."""
    try:
        _load(file, config)
    except WrongModuleError as error:
        if "module" in config:
            raise
        raise WrongModuleError(
            "MLflow cannot load a network without its code. Give module=, the name of a function "
            'that makes the network ("package.module:function"), and code_paths= if that is not '
            "installed where the model is served."
        ) from error


def _parts(model: Any) -> list[Any]:
    """The parent, and the steps of a Pipeline."""
    if model is None:
        return []
    parent = model.estimator_
    return [parent, *(step for _, step in getattr(parent, "steps", []))]


def _signature(model: Any) -> Any:
    """Names of the columns of the fit, if it had any; names and types of the answers.

    MLflow would refuse whole numbers for a column of floats, categories for one of text, and
    missing whole numbers. polycal reads and checks values itself, so their type is left open.
    """
    schema = optional("mlflow.types.schema", "mlflow")
    columns, inputs = model.columns_, None
    if columns is not None:
        used = [n for n, r in columns.items() if columns.unchanged or r.role not in LEFT_OUT]
        inputs = schema.Schema([schema.ColSpec(schema.AnyType(), name) for name in used])
    answers = answer_columns(model, None).items()
    outputs = [schema.ColSpec(TYPES.get(a.dtype.kind, "string"), name) for name, a in answers]
    signature = optional("mlflow.models", "mlflow").ModelSignature
    return signature(inputs=inputs, outputs=schema.Schema(outputs))
