"""What can go wrong, and whose mistake it is. Each message says what was expected, what came, what to do."""


class FlashDQNError(Exception):
    """The base of every error that flashdqn raises on purpose."""

    #: of the command that ends by it: 2 is the user's mistake, 1 a failure while working
    exit_code: int = 2


class ConfigError(FlashDQNError):
    """A setting, a flag or a configuration file asks for something impossible."""


class UntrustedError(ConfigError):
    """A file names code that the user has not named: nothing of it was imported."""


class EnvError(FlashDQNError):
    """An environment breaks its contract, or cannot be created."""

    exit_code = 1


class EnvFailureError(EnvError):
    """An environment's own code failed: it raised, hung, died or gave an answer that breaks its contract."""


class EnvHangError(EnvFailureError):
    """A call of an environment has not returned in its time."""


class BadNumbersError(EnvFailureError):
    """Numbers of an environment that are NaN or infinite have reached the replay."""


class CheckpointError(FlashDQNError):
    """A run folder or a checkpoint cannot be read or written."""


class StorageError(CheckpointError):
    """A disk is full, or refuses to write, while a training runs."""

    exit_code = 1


class MemoryShortageError(FlashDQNError):
    """There is not enough memory for the work."""

    exit_code = 1


class DivergedError(FlashDQNError):
    """The loss became NaN or infinite."""

    exit_code = 1
    advice = "A smaller --learn.lr may help."


class CallbackError(FlashDQNError):
    """A function of the user's, which a training calls, failed."""

    exit_code = 1


class RankLostError(FlashDQNError):
    """Another process of the same training has failed, or cannot be reached."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ToldByLeaderError(FlashDQNError):
    """The training ends on this rank too, and another rank says why: nothing is printed here."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("Another rank says why.")
        self.exit_code = exit_code


class ExecutionError(FlashDQNError):
    """A way of running the work does not apply, or failed; another way always works."""
