"""Networks: a torso that reads the observation, and the layers that give the head its numbers."""

from flashdqn.networks.build import QNetwork, build_network
from flashdqn.networks.roles import make_policy, make_target, mean_mode

__all__ = ["QNetwork", "build_network", "make_policy", "make_target", "mean_mode"]
