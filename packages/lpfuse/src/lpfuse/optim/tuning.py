"""Constants of the solvers: one record per stage, each constant with its origin.

A page or decision with measurements is named where there is one. "By hand" means that there are no
recorded measurements.
"""

from __future__ import annotations

from typing import NamedTuple

# Gaps are relative to f, but to no less than this share of Σ c: f = 0 occurs. Chosen by hand: with
# tol = 1e-8 a value of 0 must then be proven to 1e-11 of the value that w = 0 has.
FLOOR = 1e-3
# Rounding may take this share of the gap that is to be proven; beyond it rows are read to more
# digits. Least squares is certified from its moments up to a larger share, for else its scores are
# read once more. Both by hand.
ROUNDING_SHARE, MOMENTS_SHARE = 0.03, 0.3
# Rows that are added up at a time, on the host and on a device: rounding stays near 1e-13 and
# 1e-12, and products are about as quick as without. By hand.
CHUNK, DEVICE_CHUNK = 1024, 8192
FAR = 8.0  # scores are far from zero when their middle is at so many times their range; by hand


class StepRule(NamedTuple):
    """How an interior-point run takes its steps.

    Attributes
    ----------
    centring : float
        The least share of the mean product slack × multiplier that a step aims at (σ of Mehrotra).
    reach : float
        The largest share of the way to the boundary that a step may go.
    refinements : int
        How often the solution of the Newton system is refined.
    """

    centring: float
    reach: float
    refinements: int


# By hand. The fast rule lets products fall up to a millionfold a step. The robust one is for models
# so badly scaled that a fast run loses its way.
FAST = StepRule(centring=1e-6, reach=0.9995, refinements=0)
ROBUST = StepRule(centring=0.1, reach=0.9, refinements=2)


class InteriorPointTuning(NamedTuple):
    """Stage 1, `interior_point`: models of up to some thousand rows."""

    max_iter: int = 200  # by hand
    rules: tuple[StepRule, ...] = (FAST, ROBUST)  # tried in turn until one reaches the tolerance
    start_radius: float = 0.7  # by hand: how far from the centre of the ball a cold run starts
    start_product: float = 0.3  # by hand: mean product at the start, in units of the mean |r|
    start_evenness: float = 0.5  # by hand: the share of Σ t = 1 that is spread evenly at the start
    # Bounds cost as much as a small step: they are evaluated once the sum of products, which is the
    # gap near the optimum, is below this many tolerances. By hand.
    look_below: float = 4.0
    exhausted: float = 1e-17  # products below this share of the value are rounding errors: eps / 10
    stalled: float = 1e-7  # by hand: three steps in a row this short move nothing any more
    # A warm start that helps needs 4 to 8 steps instead of 9 to 13 (docs/adr/0002); one that has
    # not succeeded after this many is dropped for a cold start.
    warm_steps: int = 25
    # Least squares is solved to this share of what is asked: steps without rows cost little, and
    # where scores are huge the best of several bounds is needed. By hand.
    quadratic_margin: float = 0.1


class SmoothingTuning(NamedTuple):
    """Stage 2, `screening.approach`: Newton's method on a smoothed hinge. All by hand."""

    max_steps: int = 40
    # How near to stationary, in units of what the smoothing costs, an iterate must be before the
    # band shrinks, and by how much it shrinks then.
    settled: float = 0.3
    shrink: float = 0.25
    halvings: int = 6  # of a step that overshoots
    reach: float = 8.0  # rows farther than this many bands from the kink take no part until the end
    boundary: float = 0.95  # share of the way to the boundary of the ball that a step may go
    curvature_rows: int = 2000  # rows, and rows a weight, that are enough to tell the curvature
    curvature_rows_per_weight: int = 30


class ScreeningTuning(NamedTuple):
    """Stage 3, `screening`: which rows of a model in memory reach the interior point.

    Row counts are ``base + per_weight · (number of coordinates)``. On 20,000 × 36 scores without
    anomalies the interior point alone took 84 steps at p = 10 and more than 100 at p = 100; after
    the approach of stage 2 it needed 11 and 19, on 632 rows (docs/adr/0002). The counts themselves
    were set by hand.
    """

    alone: int = 1000  # up to this many rows the interior point is faster without a detour
    alone_per_weight: int = 20
    pilot: int = 200  # rows of a sample that gives the first guess
    pilot_per_weight: int = 8
    resolved: int = 10  # rows left in the band at which stage 2 has done its part
    resolved_per_weight: int = 3
    kept: int = 100  # rows kept around the kink for the interior point
    kept_per_weight: int = 6
    rounds: int = 8  # of taking rows back that changed side
    approaches: int = 3  # tries of stage 2, each with a band four times as wide …
    wider: int = 4  # … and this many times as many rows kept
    margin: float = 0.3  # the reduced model is solved to this share of the tolerance


class SearchTuning(NamedTuple):
    """Stage 4, `large`: sample, partition, solve, verify."""

    # Scores that BLAS works on alone: OpenBLAS shares out products from 9,216 numbers on.
    one_thread: int = 8192
    # Up to this many rows are copied as a whole: 9 MB with 36 weights. By hand.
    in_memory: int = 32768
    # Rows of the first guess: so many, so many a weight, n^(2/3) at least. At 1,000,000 × 36 a row
    # drawn costs as much as 40 rows read: 32,768 rows took 1.3 reads of all scores, 16,384 half of
    # that, for a pass more at two of eleven p; at 128 weights 16,384 rows took one more at most p.
    sample: int = 16384
    sample_per_weight: int = 256
    # The guess of this part of the sample tells how far that of the whole is off. By hand.
    first_part: int = 8
    # Rows, and share of all rows, that a partition keeps before they are thinned. A row that is
    # kept costs as much as 50 rows read at 1,000,000 × 36 (60,000 of them took three reads of all
    # scores), and a pass over thinned ones two reads: worth it from 4 % of the rows on.
    kept: int = 20_000
    kept_share: float = 0.04
    overfull: int = 1  # how many times `kept` a band may hold before it is thinned
    # The same where rows are far, on disk or on other machines: a pass is dear there. By hand.
    far_kept: int = 60_000
    far_overfull: int = 8
    # With fewer rows a weight than this short of their margin, a sample tells little of the others:
    # the first partition thins all rows then. At 1,000,000 × 36 without anomalies, p ≥ 100, it had
    # a handful, and a partition around its guess missed by more rows than it held.
    blind: int = 4
    refined: float = 1e-4  # to which gap a thinned partition is solved. By hand
    risk: float = 2.5  # by hand: how many times its expected error a margin may move
    # On an accelerator a pass takes less than a millisecond and the host's work dominates. Over 22
    # problems of 2,300,000 × 36 (p from 1 to ∞, with and without anomalies, three draws), host work
    # as measured on one core, 1.1 ms a partition and 0.9 an examination: sample 4,100, kept 16,400,
    # risk 1.8 took 14 ms in the mean and 22 at worst; risk 1.5 14 and 29, risk 1.2 16 and 65. With
    # risk 1.5, samples of 6,000 and 8,000 took 23 and 211, and 31 and 134; one of 3,000 14 and 26;
    # 10,000 kept 15 and 97, 25,000 kept 14 and 31. 500 + 100 · 36 = 4,100; four times that are kept
    # (docs/adr/0040).
    device_sample: int = 500
    device_sample_per_weight: int = 100
    device_kept: int = 4
    device_overfull: int = 1
    device_risk: float = 1.8
    # Partitions in a row that may bring only a part of their rows. With 4 a band of 700,000 rows
    # was cut to 16,400 before it had settled, and doubling took 204 ms where 8 took 22.
    thinned: int = 8
    guessed: int = 3  # by hand: how often such partitions may begin again from a better point
    remembered: int = 4096  # by hand: rows of the sample kept to judge later moves by
    # A band holds at least this many of those rows, once some rows at risk are known; before that
    # four a coordinate, for a few rows near the kink tell nothing of their risk. With it the worst
    # of the twelve problems took 49 ms and the mean 29 (docs/adr/0011).
    band_rows: int = 16
    first_band_rows_per_weight: int = 4
    # Partitions in layers, in a row. Of 2 and 4 rounds the fewer were as good on scores with light
    # tails; with heavy ones (Student's t of 2.2 degrees, 200,000 × 36) bands stay wide, and 4 spend
    # passes.
    layered: int = 2
    rounds: int = 40  # by hand
    crossed: int = 2000  # by hand: so many rows that changed side are taken in whatever the model


class TieBreakTuning(NamedTuple):
    """Stage 5, `tie_break`: weights nearest to uniform where no row violates its margin."""

    rounds: int = 30  # by hand: of adding violated rows
    quick_rounds: int = 4  # by hand: the same in the look before the real solve
    look_from: int = 8  # by hand: weights from which on that look pays for few rows, too
    rows: int = 100  # rows, and rows a coordinate, that a round adds at most. By hand
    rows_per_weight: int = 5
    # The look gives up where more than R / 4 rows are violated by the uniform weights: mending each
    # takes a weight or so. By hand.
    violated_per_weight: float = 0.25
    clean: float = 1e-13  # a value below this share of Σ c is rounding: some hundred eps
    penalties: tuple[float, ...] = (1e2, 1e5, 1e8)  # of a violated row, tried in turn. By hand
    # Margins aim at 1 + this, so that rounding does not leave them short of 1: far above eps, far
    # below what is seen in a weight.
    slack: float = 1e-9


class AlongTuning(NamedTuple):
    """Stage 6, `paths`: from the optimum at one p to that at the next (docs/adr/0042).

    The bands and the numbers of the last steps were swept over twelve paths of 1,000 rows (4 and 36
    weights, with and without anomalies, three seeds): others cost up to 40 % more time. The rest is
    by hand.
    """

    least_p: float = 1.001  # beyond, powers 1/(p − 1) and p leave the range of float64
    most_p: float = 1000.0
    first_band: float = 0.1  # share of the rows in the first band
    near_band: float = 0.05  # the same from where a sample has gone before
    # A sample goes ahead where rows are so many times as many as its own: rows, and rows a weight.
    sample: int = 500
    sample_per_weight: int = 30
    least_stride: int = 4
    sample_band: float = 0.005  # share of a sample's rows in a band that is narrow enough for it
    near_steps: int = 15
    shrink: float = 0.1  # of the band, once no margin has moved by more than …
    settled: float = 3.0  # … so many bands
    resolved: int = 10  # rows, and rows a weight, at which the sides are nearly known
    resolved_per_weight: int = 2
    curvature_rows: int = 300  # rows, and rows a weight, that are enough to tell the curvature
    curvature_rows_per_weight: int = 10
    whole: int = 80_000  # up to so many numbers in its rows the last steps take the whole model
    reach: float = 3.0  # beyond that, those within so many bands of their kink
    kink_steps: int = 20
    closer: float = 0.3  # how the band shrinks while multipliers are followed, …
    wider: float = 3.0  # … and grows after a step that was cut, of which there may be …
    halts: int = 6  # … so many
    at_kink: int = 8  # with more rows at their kink, or so many a weight, the interior point serves
    at_kink_per_weight: float = 1.0
    tries: int = 8  # of shorter steps
    # Of many rows a first partition for one p of a path keeps no more than so many, and no more
    # than this share. On 1e5 and 1e6 × 36 margins moved less than that at nearly all p.
    kept: int = 30_000
    kept_share: float = 0.08
    well_inside: float = 0.99  # a sample's optimum no farther out is inside for all rows too


class Tuning(NamedTuple):
    """All records; pass another one as ``solve(…, tuning=…)``."""

    interior_point: InteriorPointTuning = InteriorPointTuning()
    smoothing: SmoothingTuning = SmoothingTuning()
    screening: ScreeningTuning = ScreeningTuning()
    search: SearchTuning = SearchTuning()
    tie_break: TieBreakTuning = TieBreakTuning()
    along: AlongTuning = AlongTuning()


DEFAULT = Tuning()
