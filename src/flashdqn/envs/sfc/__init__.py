"""Service function chains: networks of data centers that serve chains of VNFs, on CPU threads or on CUDA."""

from flashdqn.envs.sfc.config import SfcConfig
from flashdqn.envs.sfc.env import ServiceChains

__all__ = ["ServiceChains", "SfcConfig"]
