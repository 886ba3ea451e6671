"""What can be wrong with a model file, one class for each."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file that cannot be written or read; the subclass says why."""


class NotAModelFileError(ModelFileError):
    """The file was not written by ``model.save``."""


class NewerFormatError(ModelFileError):
    """The file was written by a later polycal."""


class TruncatedFileError(ModelFileError):
    """The file ends too early."""


class AlteredFileError(ModelFileError):
    """The file does not hold what polycal wrote."""


class UnknownTypeError(ModelFileError):
    """The model holds, or the file names, a type that polycal does not store or trust."""


class WrongModuleError(ModelFileError):
    """The network given to ``load`` is missing, or not the one that was saved."""
