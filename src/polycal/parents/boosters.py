"""Raw boosters of LightGBM and XGBoost as the classifiers of these libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from sklearn.preprocessing import LabelEncoder

# Attribute of a classifier that was made of a raw booster.
RAW = "raw_booster_"


def lightgbm_classifier(booster: Any) -> Any:
    """An LGBMClassifier of the classes 0, 1, ... that predicts by this booster.

    Raises
    ------
    TypeError
        If the booster was not trained to classify.
    """
    library = import_module("lightgbm")
    text = booster.model_to_string(num_iteration=-1)
    copy = library.Booster(model_str=text)
    copy.best_iteration = booster.best_iteration
    words = (line for line in text.splitlines() if line.startswith("objective="))
    objective = next(words, "objective=custom").removeprefix("objective=").split()[0]
    if objective not in ("binary", "multiclass", "multiclassova", "cross_entropy"):
        raise TypeError(
            f'a booster of the objective "{objective}" gives no probabilities of classes; use '
            'objective="binary" or "multiclass"'
        )
    n_classes = max(2, copy.num_model_per_iteration())
    classes = np.arange(n_classes)
    classifier = library.LGBMClassifier(objective=objective)
    n_features = copy.num_feature()
    vars(classifier).update(
        _Booster=copy,
        _best_iteration=copy.best_iteration,
        _best_score={},
        _class_map=dict(zip(classes, classes, strict=True)),
        _class_weight=None,
        _classes=classes,
        _evals_result={},
        _le=LabelEncoder().fit(classes),
        _n_classes=n_classes,
        _n_features=n_features,
        _n_features_in=n_features,
        _objective=objective,
        _other_params={},
        fitted_=True,
        **{RAW: True},
    )
    return classifier


def xgboost_classifier(booster: Any) -> Any:
    """An XGBClassifier of the classes 0, 1, ... that predicts by this booster.

    Raises
    ------
    TypeError
        If the booster was not trained to classify.
    """
    classifier = import_module("xgboost").XGBClassifier()
    try:
        classifier.load_model(bytearray(booster.save_raw("ubj")))
        objective = str(classifier.objective)
    except (TypeError, ValueError):
        objective = "of no classifier"
    if not objective.startswith(("binary:logistic", "multi:")):
        raise TypeError(
            f'a booster of the objective "{objective}" gives no probabilities of classes; use '
            'objective="binary:logistic" or "multi:softprob"'
        )
    if objective == "multi:softmax":  # the classifier asks the same trees for probabilities
        classifier.set_params(objective="multi:softprob")
    return classifier
