"""TorchParent: a trained PyTorch classifier, with the parts of it that polycal uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from tqdm.auto import tqdm

from ..._utils.optional import optional
from .data import describe, in_order, iterate, split_batch
from .inference import forward, inference, n_inputs
from .plan import find_part, full_model


class TorchParent(BaseEstimator):
    """A trained PyTorch classifier, with the parts of it that polycal uses.

    Parameters
    ----------
    module : torch.nn.Module, optional
        The classifier. None when ``encoder`` and ``head`` are modules: then it is
        ``head(encoder(x))``.
    encoder : torch.nn.Module or str, optional
        A submodule of ``module``, or its dotted name. The density is then over its output,
        flattened, and not over the input.
    head : torch.nn.Module or str, optional
        The submodule whose activations are the modes. None with an encoder: all activations
        that are called outside of it. One without activations, such as a linear layer, is read
        by random hyperplanes of the embedding.
    layers : list of str, optional
        Dotted names of the submodules to read, in place of all activations. A ReLU-type is
        read at its input; any other module at its output (on where it is above 0), so name
        the ``Linear`` before an ``F.relu``. With ``module=None`` the names begin with
        ``encoder.`` or ``head.``.
    normalize : bool, default=True
        Whether to scale each embedding to length 1, so that the density is over directions.
        The gate then judges a row by its direction and by the energy of its logits. Without an
        encoder it has no effect.
    output : {"logits", "probabilities", "log_probabilities"}, default="logits"
        What the module returns. One column is the score of the second of two classes.
    device : str or torch.device, optional
        Device for the forward passes. The module is moved back afterwards. None: the device
        of its parameters.
    batch_size : int, default=256
        Rows in one forward pass. A ``DataLoader`` keeps its own.

    Notes
    -----
    The module is never trained nor copied: a clone of this object shares it.
    """

    def __init__(
        self,
        module: Any = None,
        *,
        encoder: Any = None,
        head: Any = None,
        layers: Any = None,
        normalize: bool = True,
        output: str = "logits",
        device: Any = None,
        batch_size: int = 256,
    ):
        optional("torch", "torch")
        self.module = module
        self.encoder = encoder
        self.head = head
        self.layers = layers
        self.normalize = normalize
        self.output = output
        self.device = device
        self.batch_size = batch_size

    def __sklearn_clone__(self) -> TorchParent:
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def embed(self, X: Any, *, return_labels: bool = False, verbose: int = 0) -> Any:
        """Compute the output of the encoder for each row, so that it can be stored.

        Parameters
        ----------
        X : array-like, tensor, Dataset or DataLoader
            Rows, in the form that the encoder takes.
        return_labels : bool, default=False
            Also return the labels that a Dataset or a DataLoader yields.
        verbose : int, default=0
            With 1, a progress bar is shown.

        Returns
        -------
        embeddings : ndarray of shape (n_samples, ...)
            Output of the encoder, not normalised; float64 if the encoder returns that,
            otherwise float32.
        labels : ndarray of shape (n_samples,)
            The labels; only with ``return_labels``.
        """
        if self.encoder is None:
            raise ValueError(
                "embed needs an encoder; this TorchParent has none. Give encoder= and head=."
            )
        encoder = find_part(full_model(self), self.encoder, "encoder")
        if not return_labels and not in_order(X):
            raise ValueError(
                "X is a DataLoader that does not keep the order of its rows. Use shuffle=False and "
                "no sampler, or return_labels=True."
            )
        n_rows, batches = iterate(X, self.batch_size)
        found, labels = [], []
        bar = tqdm(total=n_rows, desc="embedding", unit="row", disable=not verbose)
        with bar, inference(encoder, self.device) as device:
            for batch in batches:
                inputs, label = split_batch(batch)
                found.append(forward(encoder, inputs, device, "the encoder", "embeddings"))
                bar.update(n_inputs(inputs))
                if label is not None:
                    labels.append(label)
        if not found:
            raise ValueError("X must have at least one row; got none.")
        embeddings = np.concatenate(found)
        if not return_labels:
            return embeddings
        if not labels:
            raise ValueError(
                "return_labels=True needs an X that yields (input, label); got inputs alone."
            )
        return embeddings, np.concatenate(labels)

    def on_embeddings(self) -> TorchParent:
        """Make a parent for rows that are outputs of ``embed``: it runs only the head.

        A calibrator that is fitted on embeddings gives the same answers as one that is fitted on
        the original rows, without another forward pass of the encoder.

        Returns
        -------
        TorchParent
            A parent with the same head and an encoder that returns its input.
        """
        parts = (self.encoder, self.head)
        if self.module is not None or any(p is None or isinstance(p, str) for p in parts):
            raise ValueError(
                "on_embeddings needs a classifier that is head(encoder(x)) and nothing else; got "
                f"module={describe(self.module)}, encoder={describe(self.encoder)}, "
                f"head={describe(self.head)}. Give TorchParent(encoder=..., head=...), two modules."
            )
        identity = optional("torch", "torch").nn.Identity()
        return type(self)(**{**self.get_params(deep=False), "encoder": identity})
