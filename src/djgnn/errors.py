"""The small vocabulary of what can go wrong: one error for bad input, one warning per cause."""


class InputError(ValueError):
    """What came in cannot be used. The message says what, where and how to correct it."""


class DataNotFoundError(InputError):
    """A data set is neither on this machine nor could it be downloaded."""


class ProcessLostError(RuntimeError):
    """Another process of the same run is gone, or never came."""


class DJGNNWarning(UserWarning):
    """Base of every warning of this package."""


class NotConvergedWarning(DJGNNWarning):
    """An iteration stopped at its limit before it reached its tolerance."""


class DisconnectedWarning(DJGNNWarning):
    """The graph has several components and the result covers the largest only."""


class DamagedRecordWarning(DJGNNWarning):
    """A file in a folder of results is not what its name says, and is not used."""


class DoubtfulLabelWarning(DJGNNWarning):
    """Two classes look like one, one like none, or a word for no label never occurs."""


class UnseenCategoryWarning(DJGNNWarning):
    """A new node has a category that no node had in training."""
