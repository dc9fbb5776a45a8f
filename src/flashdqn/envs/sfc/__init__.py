"""Service function chains: networks of data centers that serve chains of VNFs, on CPU threads or on CUDA."""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later
from flashdqn.envs.sfc.config import SfcConfig

if TYPE_CHECKING:
    from flashdqn.envs.sfc.env import ServiceChains
else:
    __getattr__ = import_later(__name__, {"ServiceChains": "flashdqn.envs.sfc.env"})

__all__ = ["ServiceChains", "SfcConfig"]
