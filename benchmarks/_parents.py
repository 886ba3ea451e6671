"""The parents of the benchmarks, by name, and one that remembers what it was fitted on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from joblib import hash as digest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

ROUNDS = 200
LAYERS = (256,) * 4


def make_parent(name: str, seed: int, jobs: int = 1):
    if name == "forest":
        return RandomForestClassifier(300, random_state=seed, n_jobs=jobs)
    if name == "mlp":
        return MLPClassifier(LAYERS, random_state=seed, early_stopping=True, max_iter=100)
    if name == "hgb":
        return HistGradientBoostingClassifier(random_state=seed)
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=ROUNDS, random_state=seed, n_jobs=jobs, verbose=-1)
    if name == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=ROUNDS, random_state=seed, n_jobs=jobs)
    if name == "catboost":
        from catboost import CatBoostClassifier

        settings = {"random_seed": seed, "thread_count": jobs, "allow_writing_files": False}
        return CatBoostClassifier(iterations=ROUNDS, verbose=False, **settings)
    if name == "torch":
        return TorchNet(seed)
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if name == "neighbours":
        return make_pipeline(StandardScaler(), KNeighborsClassifier())
    if name == "bayes":
        return GaussianNB()
    if name == "svc":
        return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False))
    if name == "stacking":
        parts = [(part, make_parent(part, seed)) for part in ("logistic", "bayes")]
        trees = RandomForestClassifier(50, random_state=seed)
        return StackingClassifier([*parts, ("trees", trees)])
    raise SystemExit(f"no parent is called {name}")


PARENTS = ("forest", "lightgbm", "xgboost", "catboost", "hgb", "mlp", "torch")
# They have neither leaves nor units: polycal reads them by hyperplanes alone.
OTHERS = ("logistic", "neighbours", "bayes", "svc", "stacking")


class TorchNet(ClassifierMixin, BaseEstimator):
    """A ReLU network in plain PyTorch, stopped early on a tenth of its rows."""

    def __init__(
        self,
        seed: int = 0,
        epochs: int = 100,
        patience: int = 10,
        widths: tuple[int, ...] = LAYERS,
    ):
        self.seed = seed
        self.epochs = epochs
        self.patience = patience
        self.widths = widths

    def fit(self, X, y):
        import torch
        from torch import nn

        torch.manual_seed(self.seed)
        self.classes_, codes = np.unique(y, return_inverse=True)
        sizes = (X.shape[1], *self.widths)
        layers = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.module_ = nn.Sequential(*layers, nn.Linear(sizes[-1], len(self.classes_)))
        X, codes = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(codes)
        order = torch.randperm(len(X))
        held, order = order[: len(X) // 10], order[len(X) // 10 :]
        step = torch.optim.Adam(self.module_.parameters(), lr=1e-3)
        loss = nn.CrossEntropyLoss()
        best, waited, kept = np.inf, 0, None
        for _ in range(self.epochs):
            self.module_.train()
            for batch in order[torch.randperm(len(order))].split(min(200, len(order))):
                step.zero_grad()
                loss(self.module_(X[batch]), codes[batch]).backward()
                step.step()
            self.module_.eval()
            with torch.no_grad():
                now = float(loss(self.module_(X[held]), codes[held]))
            if now < best - 1e-4:
                best, waited = now, 0
                kept = {name: value.clone() for name, value in self.module_.state_dict().items()}
            else:
                waited += 1
            if waited >= self.patience:
                break
        self.module_.load_state_dict(kept)
        return self

    def predict_proba(self, X):
        import torch

        with torch.no_grad():
            logits = self.module_(torch.as_tensor(X, dtype=torch.float32)).double()
        return torch.softmax(logits, dim=1).numpy()

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Remembered(ClassifierMixin, BaseEstimator):
    """Fits each set of rows once, so that peers that ask for the same fit share it."""

    memory: dict = {}  # noqa: RUF012 - shared by all copies on purpose

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y):
        key = digest((X, y, repr(self.estimator)))
        if key not in self.memory:
            self.memory[key] = clone(self.estimator).fit(X, y)
        self.fitted_ = self.memory[key]
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X):
        return self.fitted_.predict_proba(X)

    def predict(self, X):
        return self.fitted_.predict(X)
