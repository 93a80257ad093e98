"""Ranks of scores within their columns, where the scores are."""

from __future__ import annotations

import array_api_compat
import numpy as np

from lpfuse._arrays.operations import Array, is_numpy, like, to_host


def column_ranks(S: Array) -> Array:
    """The rank of each entry in its column, from 1 on; equal ones share the mean of theirs.

    Examples
    --------
    >>> column_ranks(np.array([[3.0, 1.0], [3.0, 0.0], [-1.0, 2.0]])).tolist()
    [[2.5, 2.0], [2.5, 1.0], [1.0, 3.0]]
    """
    if array_api_compat.is_torch_array(S):
        import torch

        columns = S.T.contiguous()
        ordered = torch.sort(columns, dim=1).values
        below = torch.searchsorted(ordered, columns)
        up_to = torch.searchsorted(ordered, columns, right=True)
        return (0.5 * (below + up_to + 1).to(torch.float64)).T
    if not is_numpy(S):
        return like(column_ranks(to_host(S)), S)
    n, R = S.shape
    ranks, in_order = np.empty((R, n)), np.arange(1.0, n + 1.0)
    for rank, scores in zip(ranks, np.ascontiguousarray(S.T), strict=True):
        order = scores.argsort()
        ordered = scores[order]
        rank[order] = in_order
        if (ordered[1:] == ordered[:-1]).any():
            rank[:] = ordered.searchsorted(scores) + ordered.searchsorted(scores, "right") + 1
            rank *= 0.5
    return ranks.T
