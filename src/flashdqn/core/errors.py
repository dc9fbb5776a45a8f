"""What can go wrong, and whose mistake it is. Each message says what was expected, what came, what to do."""


class FlashDQNError(Exception):
    """The base of every error that flashdqn raises on purpose."""


class ConfigError(FlashDQNError):
    """A setting, a flag or a configuration file asks for something impossible."""


class UntrustedError(ConfigError):
    """A file names code that the user has not named: nothing of it was imported."""


class EnvError(FlashDQNError):
    """An environment breaks its contract, or cannot be created."""


class CheckpointError(FlashDQNError):
    """A run folder or a checkpoint cannot be read or written."""


class DivergedError(FlashDQNError):
    """The loss became NaN or infinite."""


class ExecutionError(FlashDQNError):
    """A way of running the work does not apply, or failed; another way always works."""
