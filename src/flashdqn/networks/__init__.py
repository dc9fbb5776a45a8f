"""Networks: a torso that reads the observation, and the layer that gives the head its numbers."""

from flashdqn.networks.build import QNetwork, build_network

__all__ = ["QNetwork", "build_network"]
