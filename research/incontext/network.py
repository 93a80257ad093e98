"""A network that reads a table and scores rows: rows attend to the context rows.

A row becomes a token of three parts: its cells in two views (z-scores and normal quantiles),
padded; distances to the context rows, near and far, in three views and in random subspaces; and the
mean and the maximum over its columns of what a small network makes of each cell. Blocks of
attention follow, in which every row looks at the context rows alone, so that the score of a row
depends on no other row that is scored, and the cost of a row is linear in the context.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from research.incontext.world import MOST_COLUMNS

NEIGHBOURS = (1, 3, 8, 20, 50, 120)  # besides half of the context
SUBSPACES = 8
CLIP = 10.0  # of z-scores
RIDGE = 0.1  # of the covariance of the quantiles
SMALLEST = 1e-2  # distance, before its logarithm
WINDOWS = (0.02, 0.1)  # shares of the context that the density of a cell is read from
CELL, COLUMN = 8, 5  # features of a cell, and of a column
LOCAL = 4  # index in NEIGHBOURS of the distance that is compared with the neighbours' own
N_PROFILES = 3 * (len(NEIGHBOURS) + 2) + 2 + 5
N_ROW = 2 * N_PROFILES + 4  # features of a row besides its cells


class Tokens(NamedTuple):
    """What the network is given of rows: context rows first.

    Attributes
    ----------
    values : Tensor of shape (B, T, 2 * MOST_COLUMNS)
        Cells in two views.
    cells : Tensor of shape (B, T, d, CELL + COLUMN)
    profile : Tensor of shape (B, T, N_ROW)
    """

    values: Tensor
    cells: Tensor
    profile: Tensor


def _normal_quantiles(rows: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Normal quantiles of mid-ranks among the context, the share of context rows that tie, and the
    log width, over its share, of the window of context cells around each cell."""
    columns = rows.transpose(1, 2).contiguous()
    known = columns[..., :n].sort(-1).values
    low = torch.searchsorted(known, columns)
    high = torch.searchsorted(known, columns, right=True)
    rank = ((low + high) / (2 * n)).clamp(0.5 / n, 1 - 0.5 / n)
    ties = (high - low).to(rows.dtype)
    ties[..., :n] -= 1  # itself
    quantile = math.sqrt(2) * torch.erfinv(2 * rank - 1)
    spacings = []
    for share in WINDOWS:
        reach = max(1, round(share * n / 2))
        left, right = (low - reach).clamp(min=0), (high - 1 + reach).clamp(0, n - 1)
        width = known.gather(2, right) - known.gather(2, left.clamp(max=n - 1))
        # Beyond the context, the window reaches as far as the cell.
        width = torch.maximum(width, (columns - known.gather(2, right)).clamp(min=0))
        width = torch.maximum(
            width, (known.gather(2, left.clamp(max=n - 1)) - columns).clamp(min=0)
        )
        spacings.append(torch.log(width / ((right - left + 1) / n) + SMALLEST).transpose(1, 2))
    ties = (ties.clamp(min=0) / n).transpose(1, 2)
    return quantile.transpose(1, 2), ties, torch.stack(spacings, 3)


def _distances(view: Tensor, n: int, scale: Tensor | float) -> Tensor:
    """Distances to the context rows; infinite to itself."""
    square = view.square().sum(2)
    found = square[:, :, None] + square[:, None, :n] - 2 * view @ view[:, :n].transpose(1, 2)
    found = found.clamp(min=0).sqrt() / scale
    i = torch.arange(n, device=view.device)
    found[:, i, i] = torch.inf
    return found


def _profile(view: Tensor, n: int) -> Tensor:
    """Logarithms of distances to some of the nearest context rows, and how much further away they
    are than those of the nearest rows are from these."""
    near, which = _distances(view, n, math.sqrt(view.shape[2])).sort(-1)
    places = [min(k, n - 1) - 1 for k in (*NEIGHBOURS, n // 2)]
    found = torch.log(near[..., places] + SMALLEST)
    own = found[..., LOCAL - 1]
    nearest = which[..., : min(8, n - 1)]
    around = own[:, None, :n].expand(-1, own.shape[1], -1).gather(2, nearest).mean(2)
    return torch.cat([found, (own - around)[..., None]], 2)


def _subspace_profile(view: Tensor, n: int, masks: Tensor) -> Tensor:
    """Mean and greatest log distance to the nearest row in random halves of the columns."""
    found = []
    for mask in masks:
        near = _distances(view * mask, n, mask.sum().sqrt()).amin(2)
        found.append(torch.log(near + SMALLEST))
    each = torch.stack(found)
    return torch.stack([each.mean(0), each.amax(0)], 2)


def halves(d: int, generator: torch.Generator | None = None) -> Tensor:
    """Random halves of d columns, at least one each, of shape (SUBSPACES, d)."""
    order = torch.rand(SUBSPACES, d, generator=generator).argsort(1)
    return (order < max(1, math.ceil(d / 2))).to(torch.float32)


def tokens(rows: Tensor, n: int, masks: Tensor) -> Tokens:
    """Describe rows by the first n of them, the context.

    Parameters
    ----------
    rows : Tensor of shape (B, T, d)
        Without gaps; d is at most `MOST_COLUMNS`.
    n : int
        Context rows; they come first.
    masks : Tensor of shape (SUBSPACES, d)
        From `halves`.
    """
    context = rows[:, :n]
    B, T, d = rows.shape
    z = (rows - context.mean(1, keepdim=True)) / (context.std(1, keepdim=True) + 1e-6)
    z = z.clamp(-CLIP, CLIP)
    u, ties, spacing = _normal_quantiles(z, n)
    zc, uc = z[:, :n], u[:, :n]
    covariance = uc.transpose(1, 2) @ uc / n
    ridge = RIDGE * torch.eye(d, device=rows.device)
    factor = torch.linalg.cholesky(covariance + ridge)
    w = torch.linalg.solve_triangular(factor, u.transpose(1, 2), upper=False).transpose(1, 2)
    precision = torch.cholesky_inverse(factor)
    own = precision.diagonal(dim1=1, dim2=2)
    # What the other columns do not tell of a cell, in standard deviations.
    rest = (u @ precision) / own.sqrt()[:, None]
    columnwise = torch.stack(
        [
            *spacing.mean(2).unbind(2), torch.log(rest.square().mean(2) + SMALLEST),
            torch.log(rest.abs().amax(2) + SMALLEST), torch.log(u.square().mean(2) + SMALLEST),
        ],
        2,
    )  # fmt: skip
    subspaces = _subspace_profile(u, n, masks)
    profile = torch.cat([_profile(z, n), _profile(u, n), _profile(w, n), subspaces, columnwise], 2)
    known = profile[:, :n]
    middle = known.median(1, keepdim=True).values
    width = (known - middle).abs().mean(1, keepdim=True) + 0.05
    size = [
        z.abs().amax(2), z.square().mean(2).sqrt(),
        rows.new_full((B, T), math.log(d) - 2), rows.new_full((B, T), math.log(n) - 6),
    ]  # fmt: skip
    row = torch.cat([profile, ((profile - middle) / width).clamp(-8, 8), torch.stack(size, 2)], 2)
    outside = torch.relu(z - zc.amax(1, keepdim=True)) + torch.relu(zc.amin(1, keepdim=True) - z)
    cell = torch.stack(
        [
            torch.asinh(z), u, u.abs() - 0.8, torch.log(ties + 1 / n) / 3 + 1, torch.asinh(outside),
            rest.abs() - 0.8, *(spacing - 1).unbind(3),
        ],
        3,
    )  # fmt: skip
    tied = ties[:, :n].mean(1)
    column = torch.stack(
        [
            torch.asinh(zc.pow(3).mean(1)), torch.log(zc.pow(4).mean(1) + 0.1) - 1,
            torch.log(tied + 1 / n) / 3 + 1, (covariance.square().mean(2) + 1e-6).sqrt() * 3 - 1,
            2 / own.clamp(min=0.3) - 1,
        ],
        2,
    )  # fmt: skip
    cell = torch.cat([cell, column[:, None].expand(-1, T, -1, -1)], 3)
    scale = math.sqrt(MOST_COLUMNS / d) / 2
    values = torch.cat([F.pad(v, (0, MOST_COLUMNS - d)) * scale for v in (z, u)], 2)
    return Tokens(values, cell, row)


class Block(nn.Module):
    """Attention to the context rows, then a layer for each row."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        # Attention thins out as contexts grow: its logits grow with the logarithm of the context.
        self.growth = nn.Parameter(torch.full((heads, 1, 1), 0.2))

    def forward(self, x: Tensor, n: int) -> Tensor:
        u = self.before(x)
        B, T, width = u.shape

        def split(v: Tensor) -> Tensor:
            return v.view(B, -1, self.heads, width // self.heads).transpose(1, 2)

        keys, values = self.key_value(u[:, :n]).chunk(2, -1)
        query = split(self.query(u))
        query = query * (1 + self.growth * (math.log(n) - 6)).to(query.dtype)
        seen = F.scaled_dot_product_attention(query, split(keys), split(values))
        x = x + self.out(seen.transpose(1, 2).reshape(B, T, width))
        return x + self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))


class Network(nn.Module):
    """Tokens in, a score a row out: high = anomalous.

    With `values` or `columns` 0, what comes of the cells in their places, or of the small network
    over the columns, is left out.
    """

    def __init__(
        self, width: int = 192, layers: int = 6, heads: int = 6, cell: int = 32,
        values: int = 1, columns: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.settings = {
            "width": width, "layers": layers, "heads": heads, "cell": cell,
            "values": values, "columns": columns,
        }  # fmt: skip
        self.from_values = nn.Linear(2 * MOST_COLUMNS, width)
        self.from_row = nn.Sequential(
            nn.Linear(N_ROW, width), nn.GELU("tanh"), nn.Linear(width, width)
        )
        self.of_cell = nn.Sequential(
            nn.Linear(CELL + COLUMN, cell), nn.GELU("tanh"), nn.Linear(cell, cell), nn.GELU("tanh")
        )
        self.from_cells = nn.Linear(2 * cell, width)
        self.place = nn.Parameter(torch.zeros(2, width))  # of context rows, and of rows to score
        self.label = nn.Parameter(torch.zeros(3, width))  # anomaly, unlabelled, normal
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.score = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, given: Tokens, labels: Tensor) -> Tensor:
        n = labels.shape[1]
        x = self.from_row(given.profile)
        if self.settings["values"]:
            x = x + self.from_values(given.values)
        if self.settings["columns"]:
            cells = self.of_cell(given.cells)
            x = x + self.from_cells(torch.cat([cells.mean(2), cells.amax(2)], 2))
        known = self.label[labels.long() + 1] + self.place[0]
        x = x + torch.cat([known, self.place[1].expand(x.shape[0], x.shape[1] - n, -1)], 1)
        for block in self.blocks:
            x = block(x, n)
        return self.score(self.norm(x))[..., 0]
