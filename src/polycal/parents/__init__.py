"""X -> activation modes. One small adapter for each family; knows nothing of kernels."""

# Importing a family registers its adapter; the order is that of the list in error messages.
from . import forest, bagging, boosting, mlp, skorch, keras, pipeline, search  # noqa: F401, I001
from .base import Adapter
from .torch import adapter  # noqa: F401
from .torch.parent import TorchParent

__all__ = ["Adapter", "TorchParent", "find_adapter"]

find_adapter = Adapter.find
