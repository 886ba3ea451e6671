"""polycal in a container: a read-only file system, no home, another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pytest

import polycal

NOBODY = 65534
# Fit, predict, load a model, and print probabilities. Nothing may be written.
USE = """
import os, sys
import polycal
folder = os.path.dirname(polycal.__file__)
assert folder == sys.argv[1], folder
assert "HOME" not in os.environ
if sys.argv[3] == "read-only":
    try:
        open(os.path.join(folder, "probe"), "w")
        sys.exit("the folder of the package is writable")
    except OSError:
        pass
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
X, y = load_iris(return_X_y=True)
model = polycal.GeodesicCalibrator(RandomForestClassifier(10, random_state=0), random_state=0)
fitted = model.fit(X, y).predict_proba(X[:3])
loaded = polycal.load(sys.argv[2]).predict_proba(X[:3])
print(*fitted.ravel().tolist(), *loaded.ravel().tolist())
"""


@pytest.fixture(scope="module")
def installed():
    """A copy of the package that all may read, and a model file.

    Any other run of pytest closes the folders of pytest to all but their owner.
    """
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier

    folder = tempfile.TemporaryDirectory(prefix="polycal-", ignore_cleanup_errors=True)
    root = Path(folder.name)
    root.chmod(0o755)
    source = Path(polycal.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    package = shutil.copytree(source, root / "site" / "polycal", ignore=ignore)
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=0)
    model = polycal.GeodesicCalibrator(forest, random_state=0).fit(X, y)
    model.save(root / "m.polycal")
    P = model.predict_proba(X[:3]).ravel()
    with folder:
        yield package, root / "m.polycal", np.concatenate([P, P])


def run(installed, mode, **environment):
    """Use the copy in a process of its own; ``mode`` is "writable" or "read-only"."""
    package, model, _ = installed
    command = [sys.executable, "-c", USE, package, model, mode]
    if mode == "read-only":
        for path in [package, *package.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        command = confined(command, model.parent / "python")
    libraries = [package.parent, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    path = os.pathsep.join(map(str, libraries))
    return subprocess.run(
        list(map(str, command)),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def confined(command, python):
    """The command as another user on a read-only file system, or with one of both.

    Another user may not be allowed to enter the folder of Python; then Python is mounted on the
    folder ``python``. Whoever is not root runs it as himself, with his caches out of reach.
    """
    if os.getuid() != 0:
        return ["env", "XDG_CACHE_HOME=/proc/none", *command]
    python.mkdir(exist_ok=True)
    mounts = 'mount --bind "$0" "$1" && mount -o remount,ro,bind / && shift && exec "$@"'
    locked = ["unshare", "--mount", "sh", "-c", mounts, sys.base_prefix, str(python)]
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    mounted = str(python / "bin" / f"python3.{sys.version_info.minor}")
    for before, interpreter in (
        ([*locked, *other], mounted),
        (other, sys.executable),
        (locked, sys.executable),
    ):
        if works([*before, interpreter, "-c", ""]):
            return [*before, interpreter, *command[1:]]
    raise AssertionError("neither another user nor a read-only file system can be had")


def works(command):
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="as in a container of Linux")
def test_without_a_cache(installed):
    """Loops are compiled by the process, which says so once."""
    found = run(installed, "read-only")
    assert found.returncode == 0, found.stderr
    np.testing.assert_allclose(np.array(found.stdout.split(), dtype=float), installed[2], atol=1e-9)
    assert found.stderr.count("polycal compiles its loops") == 1
    assert "Set NUMBA_CACHE_DIR" in found.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="as in a container of Linux")
def test_with_loops_that_were_compiled_before(installed):
    """As docs/recipes.md says: compile where the folder is writable, use where it is not."""
    cache = installed[1].parent / "numba"
    first = run(installed, "writable", NUMBA_CACHE_DIR=str(cache))
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("compiles loops that are new to this machine, once") == 1
    for folder in [cache, *cache.rglob("*")]:
        folder.chmod(0o555 if folder.is_dir() else 0o444)
    second = run(installed, "read-only", NUMBA_CACHE_DIR=str(cache))
    assert second.returncode == 0, second.stderr
    assert "compiles" not in second.stderr
    assert second.stdout == first.stdout
