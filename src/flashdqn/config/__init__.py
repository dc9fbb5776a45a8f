"""Every setting of a training, in nested frozen dataclasses that check themselves.

The command line is derived from these: `Config.replay.n_step` is `--replay.n-step`. A configuration file and
keyword arguments in Python use the same names.
"""

from flashdqn.config.demos import DemosConfig
from flashdqn.config.learning import ExploreConfig, LearnConfig, PQNConfig, ReplayConfig
from flashdqn.config.network import NetworkConfig
from flashdqn.config.running import EvalConfig, LogConfig, RuntimeConfig
from flashdqn.config.training import Config
from flashdqn.config.values import RATIOS, Seconds, parse_duration, parse_ratio, require

__all__ = [
    "RATIOS",
    "Config",
    "DemosConfig",
    "EvalConfig",
    "ExploreConfig",
    "LearnConfig",
    "LogConfig",
    "NetworkConfig",
    "PQNConfig",
    "ReplayConfig",
    "RuntimeConfig",
    "Seconds",
    "parse_duration",
    "parse_ratio",
    "require",
]
