"""A convolution with its batch normalisation, and the two made into one."""

from __future__ import annotations

import torch
from torch import nn

Side = int | tuple[int, int]


class NormalisedConvolution(nn.Module):
    """Convolution, batch normalisation, and a rectifier that lets ``slope`` times the rest through.

    The count of batches seen, which matters to training alone, is not kept.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: Side,
        *,
        stride: int = 1,
        padding: Side = 0,
        eps: float,
        slope: float = 0.0,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn: nn.Module = nn.BatchNorm2d(outputs, eps=eps)
        self.bn.num_batches_tracked = None
        self.activation = nn.LeakyReLU(slope, inplace=True) if slope else nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        rectified: torch.Tensor = self.activation(self.bn(self.conv(x)))
        return rectified

    def fold(self) -> None:
        """Let the convolution do what the normalisation did.

        ``γ (Wx − μ)/√(σ² + ε) + β = (fW)x + (β − fμ)`` with ``f = γ/√(σ² + ε)``, in double
        precision before it is rounded.
        """
        if not isinstance(self.bn, nn.BatchNorm2d):
            return
        mean, variance = self.bn.running_mean, self.bn.running_var
        assert mean is not None
        assert variance is not None
        factor = self.bn.weight.double() / torch.sqrt(variance.double() + self.bn.eps)
        shift = self.bn.bias.double() - factor * mean.double()
        weight = self.conv.weight
        folded = weight.double() * factor[:, None, None, None]
        self.conv.weight = nn.Parameter(folded.to(weight.dtype), requires_grad=False)
        self.conv.bias = nn.Parameter(shift.to(weight.dtype), requires_grad=False)
        self.bn = nn.Identity()


def fold_normalisations(network: nn.Module) -> None:
    """Fold every batch normalisation of the network into the convolution before it."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, NormalisedConvolution):
                layer.fold()
