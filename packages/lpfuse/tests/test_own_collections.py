"""Collections that bring their own blocks, as those of Spark do: no Dask, and the same passes."""

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse import LpFusion, verify
from lpfuse._arrays.blocks import Blocks


class OwnBlocks(Blocks):
    """In this process, one after the other; `passes` counts reads."""

    def __init__(self, parts, sizes, passes):
        super().__init__(parts, sizes)
        self.passes = passes

    def reduce(self, work, merge, *shared):
        self.passes.append(len(self))
        read = [tuple(p() if callable(p) else p for p in parts) for parts in self.parts]
        return merge([work(k, parts, *shared) for k, parts in enumerate(read)])

    def lazy(self, work, shared, width, dtype, along=None):
        each = [[]] * len(self) if along is None else [[item] for item in along]

        def later(k, parts):
            return lambda: work(
                k, tuple(p() if callable(p) else p for p in parts), *each[k], *shared
            )

        return Own([later(k, parts) for k, parts in enumerate(self.parts)], self.sizes, self.passes)


class Own:
    """A table or a vector in pieces."""

    def __init__(self, pieces, sizes, passes=None):
        self.pieces, self.sizes = pieces, sizes
        self.passes = [] if passes is None else passes
        first = pieces[0]() if callable(pieces[0]) else pieces[0]
        self.ndim, self.shape, self.dtype = first.ndim, (sum(sizes), *first.shape[1:]), first.dtype

    def lpfuse_blocks(self, *vectors):
        columns = [self.pieces]
        columns += [[None] * len(self.sizes) if v is None else v.pieces for v in vectors]
        return OwnBlocks(list(zip(*columns, strict=True)), self.sizes, self.passes)

    def compute(self):
        return np.concatenate([p() if callable(p) else p for p in self.pieces])


def pieces(values):
    return Own(np.split(values, [100, 100, 350]), [100, 0, 250, len(values) - 350])


@cases("labelled", [False, True])
@cases("imaginary", [0, 1.0])
def test_weights_and_proof_are_those_of_the_whole_array(labelled, imaginary):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.1, -1.0, 1.0) if labelled else None
    S = rng.normal([0.9, 0.5, 0.1], 0.5, size=(600, 3)) * (1 if y is None else y[:, None])
    table = pieces(S)
    fusion = LpFusion(imaginary_anomalies=imaginary).fit(table, None if y is None else pieces(y))
    whole = LpFusion(imaginary_anomalies=imaginary).fit(S, y)
    np.testing.assert_allclose(fusion.weights_, whole.weights_, rtol=0, atol=1e-6)
    assert fusion.certificate_.status == "optimal"
    assert fusion.certificate_.passes >= len(table.passes) - 1 > 0
    alpha = fusion.certificate_.alpha.compute()
    assert alpha.shape == (600 + (imaginary > 0),)
    np.testing.assert_allclose(fusion.score_samples(table).compute(), S @ fusion.weights_)
    if not imaginary:
        fusion.certificate_ = fusion.certificate_.__class__(
            **{**vars(fusion.certificate_), "alpha": alpha}
        )
        assert verify(fusion, S, y).holds
        assert not verify(fusion, S[::-1] + 0.1, y).holds


def test_pieces_that_change_between_passes_are_refused():
    rng = np.random.default_rng(0)
    changing = Own([lambda: rng.normal(1, 0.5, size=(300, 2))] * 2, [300, 300])
    with pytest.raises(ValueError, match="block 0 has changed between two passes"):
        LpFusion().fit(changing)
