"""What a fitted model prints of itself."""

from __future__ import annotations

from sklearn.datasets import load_wine

from polycal import KernelDensityForest
from polycal.estimators.facts import model_facts, shares_as_text, witness_weights

X, y = load_wine(return_X_y=True)


def test_printed_model():
    model = KernelDensityForest(25, random_state=0)
    assert str(model) == repr(model)
    model.fit(X, y)
    first, _, *facts = str(model).splitlines()
    assert first == "KernelDensityForest(n_estimators=25, random_state=0)"
    named = {line.split("  ")[0]: line for line in facts}
    for name, fact in model_facts(model).items():
        assert fact[:20] in named[name]
    assert "178" in named["training rows"]
    assert all(len(line) <= 88 for line in str(model).splitlines())


def test_weights_of_the_witnesses_are_those_of_the_pool():
    model = KernelDensityForest(25, random_state=0).fit(X, y)
    weights = witness_weights(model)
    assert list(weights) == ["parent", "kernel", "hyperplanes"]
    assert abs(sum(weights.values()) - model.pool_weights_[:, :2].sum()) < 1e-12


def test_long_labels_are_shortened():
    labels = [letter * 5000 for letter in "abc"]
    model = KernelDensityForest(25, random_state=0).fit(X, [labels[code] for code in y])
    assert f"{'a' * 37}...: 0.331" in model_facts(model)["class priors"]
    assert len(str(model)) < 5000


def test_very_many_classes_are_counted():
    shown = shares_as_text(dict.fromkeys(range(100), 0.01))
    assert shown.startswith("0: 0.01, 1: 0.01, ")
    assert shown.endswith("29: 0.01, and 70 other classes")
    assert shares_as_text({"a": 0.25, "b": 0.75}) == "a: 0.25, b: 0.75"
