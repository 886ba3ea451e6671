"""One small parent of each family, fitted or to be fitted."""

from __future__ import annotations

import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.toys.models import small_forest, small_network


def lightgbm():
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1, random_state=0)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1, random_state=0)


def catboost():
    module = pytest.importorskip("catboost")
    settings = {"allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return module.CatBoostClassifier(iterations=30, verbose=False, **settings)


def skorch(n_features=5, n_classes=2):
    module, torch = pytest.importorskip("skorch"), pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(n_features, 24), nn.ReLU(), nn.Linear(24, n_classes))
    return module.NeuralNetClassifier(
        net, criterion=nn.CrossEntropyLoss, max_epochs=30, lr=0.2, train_split=None, verbose=0
    )


FAMILIES = {
    "forest": small_forest,
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=20, random_state=0),
    "hist gradient boosting": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
    "network": small_network,
    "skorch": skorch,
    "pipeline": lambda: make_pipeline(StandardScaler(), small_network()),
}


def torch_net(X, y, *, seed=0, n_classes=2, steps=150):
    """A small network trained in plain PyTorch."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    nn = torch.nn
    net = nn.Sequential(nn.Linear(X.shape[1], 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU())
    net.append(nn.Linear(16, n_classes))
    step = torch.optim.Adam(net.parameters(), lr=0.02)
    X, y = torch.as_tensor(X), torch.as_tensor(y)
    for _ in range(steps):
        step.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        step.step()
    return net
