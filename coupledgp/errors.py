"""Error types. Every error this package raises on purpose derives from `CoupledGPError`."""


class CoupledGPError(Exception):
    """Base of all errors raised by coupledgp."""


class InvalidInputError(CoupledGPError, ValueError):
    """An argument has a wrong value, shape or type; the message names it."""


class NumericalError(CoupledGPError, ArithmeticError):
    """A computation broke down numerically; the message gives the condition number and a remedy."""


class DataNotFoundError(CoupledGPError, FileNotFoundError):
    """A data set is neither on disk nor downloadable; the message says where to put the file."""


class ModelFileError(CoupledGPError, ValueError):
    """A saved model cannot be read: not a model file, damaged, or of an unknown version."""


class MemoryLimitError(InvalidInputError, MemoryError):
    """The computation would not fit in memory; the message gives the estimate and a remedy."""


class MissingLibraryError(CoupledGPError, ImportError):
    """An optional library is not installed; the message names the extra that installs it."""


class ExtrapolationWarning(UserWarning):
    """Rows to predict lie where there are no training rows; the message names rows and columns."""


class HeavyTailWarning(UserWarning):
    """Laws of transformed targets have no sane moments; the message says what is given."""


class DiscreteTargetsWarning(UserWarning):
    """Targets take few values, between which a Gaussian law puts chance; the message names them."""


class MissingModelsWarning(UserWarning):
    """Models whose library is not installed are left out of a choice; the message names it."""


class PrecisionWarning(UserWarning):
    """A result may be off by more than the documented share; the message estimates the error."""
