"""Output layers: from features to the numbers that the head reads, `size` of them per action."""

from __future__ import annotations

from torch import Tensor, nn

from flashdqn.networks.torsos import MakeLinear, hidden_layers


def make_stream(
    features: int, hidden: tuple[int, ...], outputs: int, layer_norm: bool, linear: MakeLinear
) -> nn.Module:
    """Hidden layers of the stream's own, if any, and a linear layer: […, features] → […, outputs]."""
    layers, width = hidden_layers(features, hidden, layer_norm, linear)
    output = linear(width, outputs)
    return nn.Sequential(*layers, output) if hidden else output


class Dueling(nn.Module):
    """Value and advantage streams: V + A − mean_a A (Wang et al. 2016, eq. 9), for each of `size` numbers alone.

    With a distributional head that is every atom's logit or every quantile, as in Rainbow (Hessel et al. 2018).
    """

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...],
        num_actions: int,
        size: int,
        layer_norm: bool,
        linear: MakeLinear,
    ) -> None:
        super().__init__()
        self.shape = (num_actions, size)
        self.value = make_stream(features, hidden, size, layer_norm, linear)
        self.advantage = make_stream(features, hidden, num_actions * size, layer_norm, linear)

    def forward(self, features: Tensor) -> Tensor:
        """[…, features] → […, A · size]."""
        value = self.value(features).unsqueeze(-2)  # […, 1, size]
        advantage = self.advantage(features).unflatten(-1, self.shape)  # […, A, size]
        centred = advantage - advantage.mean(-2, keepdim=True)
        return (value + centred).flatten(-2)  # type: ignore[no-any-return]
