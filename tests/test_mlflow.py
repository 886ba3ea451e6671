"""Models in MLflow: saved, logged, loaded, and served to real requests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier

import polycal
import polycal.mlflow
from polycal import GeodesicCalibrator
from polycal.datasets import load_loans
from polycal.persistence import WrongModuleError
from tests.toys.families import lightgbm, torch_net
from tests.toys.models import small_forest

OPTIONS = {"calibration": "holdout", "random_state": 0}
LOANS = load_loans()
X, Y = LOANS.drop(columns=["outcome", "loan id"]), LOANS["outcome"]
ANSWERS = ["prediction", "p_default", "p_late", "p_repaid", "trust", "verdict"]
STARTS_WITHIN = 90.0  # seconds

# Third-party words that are no news.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore:.*An input example was not provided",
)


@pytest.fixture(scope="module")
def mlflow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import warns of its own code
        pytest.importorskip("mlflow.pyfunc")
        pytest.importorskip("mlflow.artifacts")
        return pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def model():
    parent = HistGradientBoostingClassifier(max_iter=10, random_state=0)
    return GeodesicCalibrator(parent, **OPTIONS).fit(X[:600], Y[:600])


@pytest.fixture(scope="module")
def folder(mlflow, model, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "loans"
    polycal.mlflow.save_model(model, path, input_example=rows_of(X[600:602]))
    return path


def rows_of(frame):
    return json.loads(frame.to_json(orient="records", date_format="iso"))


def network_of_blobs():
    """What a server calls for the code of a network."""
    return torch_net(np.zeros((2, 5), dtype=np.float32), [0, 1], steps=0)


# ------------------------------------------------------------------ files


def test_the_model_file_is_polycals_own(folder, model):
    P = polycal.load(folder / "data" / "model.polycal").predict_proba(X[600:])
    assert_array_equal(P, model.predict_proba(X[600:]))
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    assert {"MLmodel", "requirements.txt", "input_example.json", "model.polycal"} <= files


def test_load_model(folder, model):
    loaded = polycal.mlflow.load_model(str(folder))
    assert type(loaded) is GeodesicCalibrator
    assert_array_equal(loaded.predict_proba(X[600:]), model.predict_proba(X[600:]))


@pytest.mark.parametrize("rows", [X[600:], pd.DataFrame(rows_of(X[600:]), index=X.index[600:])])
def test_predict_returns_the_columns_of_the_command_line(mlflow, folder, model, rows):
    found = mlflow.pyfunc.load_model(str(folder)).predict(rows[reversed(rows.columns)])
    assert list(found) == ANSWERS
    assert_array_equal(found[ANSWERS[1:4]], model.predict_proba(X[600:]))
    assert_array_equal(found["prediction"], model.predict(X[600:]))
    assert_array_equal(found["trust"], model.in_distribution(X[600:]))
    assert_array_equal(found["verdict"], model.explain(X[600:]).verdict)


def test_signature_and_requirements(mlflow, folder):
    facts = mlflow.models.Model.load(str(folder))
    assert facts.signature.inputs.input_names() == list(X.columns)
    assert facts.signature.outputs.input_names() == ANSWERS
    kinds = [kind.name for kind in facts.signature.outputs.input_types()]
    assert kinds == ["string", "double", "double", "double", "double", "string"]
    assert facts.load_input_example(str(folder)) is not None
    required = (folder / "requirements.txt").read_text().splitlines()
    assert f"polycal=={polycal.__version__}" in required
    assert f"numpy=={np.__version__}" in required
    assert all("==" in line for line in required)


def test_a_column_that_is_missing(mlflow, folder):
    with pytest.raises(mlflow.MlflowException, match="missing inputs.*income"):
        mlflow.pyfunc.load_model(str(folder)).predict(X[600:].drop(columns="income"))


def test_log_model(mlflow, model, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    try:
        mlflow.set_experiment("loans")
        with mlflow.start_run():
            info = polycal.mlflow.log_model(model, "loans", metadata={"owner": "us"})
        loaded = polycal.mlflow.load_model(info.model_uri)
        served = mlflow.pyfunc.load_model(info.model_uri)
    finally:
        mlflow.set_tracking_uri(None)
    assert info.flavors.keys() == {"polycal", "python_function"}
    assert info.metadata["owner"] == "us"
    assert_array_equal(loaded.predict_proba(X[600:]), model.predict_proba(X[600:]))
    assert_array_equal(served.predict(X[600:])[ANSWERS[1:4]], model.predict_proba(X[600:]))


def test_a_model_of_arrays(mlflow, blobs, tmp_path):
    rows, y = blobs
    model = GeodesicCalibrator(small_forest(), **OPTIONS).fit(rows[:450], y[:450])
    polycal.mlflow.save_model(model, tmp_path / "m")
    found = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(rows[450:])
    assert_array_equal(found[["p_0", "p_1"]], model.predict_proba(rows[450:]))
    assert_array_equal(found["prediction"], model.predict(rows[450:]))


def test_a_network_needs_its_code(mlflow, blobs, tmp_path):
    pytest.importorskip("torch")
    rows, y = blobs[0].astype(np.float32), blobs[1]
    model = GeodesicCalibrator(torch_net(rows[:300], y[:300]))
    model.fit(rows[:300], y[:300], X_cal=rows[300:], y_cal=y[300:])
    with pytest.raises(WrongModuleError, match="Give module=, the name of a function"):
        polycal.mlflow.save_model(model, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    polycal.mlflow.save_model(model, tmp_path / "m", module=f"{__name__}:network_of_blobs")
    loaded = polycal.mlflow.load_model(str(tmp_path / "m"))
    assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    found = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(rows)
    assert_array_equal(found[["p_0", "p_1"]], model.predict_proba(rows))
    assert any(line.startswith("torch==") for line in lines(tmp_path / "m" / "requirements.txt"))


def lines(path):
    return Path(path).read_text().splitlines()


def test_a_folder_of_another_flavour(mlflow, tmp_path):
    (tmp_path / "MLmodel").write_text("flavors:\n  sklearn:\n    data: m.skops\n")
    with pytest.raises(ValueError, match=r"no model of polycal; it has the flavors \['sklearn'\]"):
        polycal.mlflow.load_model(str(tmp_path))


def test_requirements_name_the_library_of_the_parent(blobs):
    rows, y = blobs
    model = GeodesicCalibrator(lightgbm(), **OPTIONS).fit(rows, y)
    names = [line.split("==")[0] for line in polycal.mlflow.get_default_pip_requirements(model)]
    assert names[0] == "polycal"
    assert names[-1] == "lightgbm"


# ------------------------------------------------------------------ served


@contextmanager
def served(folder, log):
    """The address of a server of the model, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--env-manager", "local", "--host", "127.0.0.1", "--port", port]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", folder, *options]
    source = str(Path(polycal.__file__).parents[1])
    paths = [os.path.dirname(sys.executable), os.environ["PATH"]]  # where uvicorn is
    with open(log, "w") as output:
        server = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, "PATH": os.pathsep.join(paths), "PYTHONPATH": source},
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + STARTS_WITHIN
        while not answers(f"{address}/ping"):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(timeout=10)


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def ask(address, rows):
    request = urllib.request.Request(
        f"{address}/invocations",
        data=json.dumps({"dataframe_records": rows}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return pd.DataFrame(json.load(answer)["predictions"])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ends the server by its process group")
def test_served_to_real_requests(mlflow, folder, model, tmp_path):
    rows = rows_of(X[600:])
    expected = model.predict_proba(X[600:])
    with served(folder, tmp_path / "server.log") as address:
        found = ask(address, rows)
        assert list(found) == ANSWERS
        assert_array_equal(found[ANSWERS[1:4]], expected)
        assert_array_equal(found["prediction"], model.predict(X[600:]))
        one = ask(address, [{**dict(reversed(rows[0].items())), "request": 7}])
        assert_array_equal(one[ANSWERS[1:4]], expected[:1])
        with ThreadPoolExecutor(8) as users:
            parts = [rows[i : i + 10] for i in range(0, len(rows), 10)]
            together = pd.concat(users.map(lambda part: ask(address, part), parts))
        assert_array_equal(together[ANSWERS[1:4]], expected)
        for row, words in (
            ({k: v for k, v in rows[0].items() if k != "income"}, "income"),
            ({**rows[0], "income": "much"}, "'much' as 'income', which must be a number"),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(address, [row])
            assert refused.value.code in (400, 500)
            assert words in refused.value.read().decode()
