"""Made-up tables with anomalies: what a detector in context learns from.

A table is a set of rows of a random structural causal model: causes flow through layers of units
with random weights, activations and noise, and columns are units chosen at random, each measured in
a way of its own (rounded, counted, in classes, with a heavy tail, copied). Anomalies are of the
kinds that the literature tells apart: rows of another class, of a rare event, of a mechanism that
broke, shifted, spread, in a tight group, or wrong in some cells. Some of the context rows are such
anomalies, too, and of some of these a label is known.

All tables of a part of a batch are drawn at once, on the device of the generator. No real table has
any part in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

MOST_COLUMNS = 32
MOST_HIDDEN = 0.3  # of the context rows
LAYERS, WIDTH = (1, 4), (6, 28)  # of a causal model
HEAVY, FAR = 1e4, 6.0  # bounds of measured values, and of units


class Batch(NamedTuple):
    """Tables of one size.

    Attributes
    ----------
    rows : Tensor of shape (B, n + m, d)
        Context rows, then rows to score: normal ones first.
    is_anomaly : Tensor of shape (B, n + m)
        Booleans.
    labels : Tensor of shape (B, n)
        What is known of the context rows: +1 normal, −1 anomaly, 0 unlabelled.
    """

    rows: Tensor
    is_anomaly: Tensor
    labels: Tensor


class Dice:
    """Random numbers of one generator; sizes are drawn on the host."""

    def __init__(self, seed: int, device: str) -> None:
        self.device = device
        self._random = torch.Generator(device).manual_seed(seed)
        self.host = torch.Generator().manual_seed(seed)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        drawn = torch.rand(*shape, generator=self._random, device=self.device)
        return low + (high - low) * drawn

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random, device=self.device)

    def chance(self, *shape: int, of: float | Tensor) -> Tensor:
        return self.uniform(*shape) < of

    def between(self, low: int, high: int) -> int:
        """An integer; `high` included."""
        return int(torch.randint(low, high + 1, (), generator=self.host))

    def choose(self, weights: Mapping[str, float]) -> str:
        names = list(weights)
        chances = torch.tensor([weights[name] for name in names])
        return names[int(torch.multinomial(chances, 1, generator=self.host))]

    def real(self) -> float:
        return float(torch.rand((), generator=self.host))

    def order(self, *shape: int) -> Tensor:
        """Permutations along the last axis."""
        return self.uniform(*shape).argsort(-1)


# ------------------------------------------------------------------------------------ causal models


def _activated(x: Tensor, which: Tensor) -> Tensor:
    """Pass each unit through its own function."""
    shapes = (
        x, torch.tanh(1.5 * x), torch.relu(x), torch.sin(2 * x), x.abs(),
        torch.exp(-(x**2)), (x > 0).to(x.dtype), x**2 / 2,
    )  # fmt: skip
    found = shapes[0]
    for number, shape in enumerate(shapes[1:], 1):
        found = torch.where(which == number, shape, found)
    return found


class CausalModel:
    """Causes, and layers of units that follow from them; one model a table.

    ``units(causes)`` gives all units, those of the causes first, on the scale that its first call
    has set. `change(layer, x)` may replace the units of a layer, which the next ones follow.
    """

    def __init__(self, dice: Dice, tables: int) -> None:
        self.dice, self.tables = dice, tables
        self.n_causes = dice.between(2, 10)
        self.n_layers, self.width = dice.between(*LAYERS), dice.between(*WIDTH)
        self._weights, self._bias, self._shape = [], [], []
        before = self.n_causes
        for _ in range(self.n_layers):
            dense = dice.uniform(tables, 1, 1, low=0.15)
            weights = dice.normal(tables, before, self.width)
            weights = weights * dice.chance(tables, before, self.width, of=dense)
            # Units that nothing causes keep one cause.
            lone = dice.uniform(tables, before, self.width)
            weights = weights + (lone == lone.amax(1, keepdim=True)) * (0.5 + lone)
            self._weights.append(weights / weights.square().sum(1, keepdim=True).sqrt())
            self._bias.append(dice.normal(tables, 1, self.width) * 0.7)
            linear = dice.chance(tables, 1, 1, of=0.35)
            shape = (8 * dice.uniform(tables, 1, self.width)).long()
            self._shape.append(torch.where(linear, 0, shape))
            before = self.width
        self._noise = 10 ** dice.uniform(tables, 1, self.width, low=-2.5, high=-0.2)
        self._scales: list[tuple[Tensor, Tensor]] = []
        self.n_components = dice.between(1, 8)
        self._centres = dice.normal(tables, self.n_components, self.n_causes)
        self._centres = self._centres * dice.uniform(tables, 1, 1, high=3.5)
        self._spread = dice.uniform(tables, self.n_components, self.n_causes, low=0.1, high=1.4)
        self._share = -torch.log(dice.uniform(tables, self.n_components, low=0.02))
        self._tail = dice.chance(tables, 1, self.n_causes, of=0.2 * dice.real())

    def causes(self, n: int, among: Tensor | float = 1.0) -> Tensor:
        """Draw causes of n rows of each table, of shape (B, n, q), of some components alone."""
        dice, shape = self.dice, (self.tables, n, self.n_causes)
        total = (self._share * among).cumsum(1)
        point = dice.uniform(self.tables, n) * total[:, -1:]
        which = torch.searchsorted(total, point).clamp(max=self.n_components - 1)
        which = which[..., None].expand(-1, -1, self.n_causes)
        drawn = dice.normal(*shape)
        heavy = drawn / dice.uniform(*shape, low=0.03).sqrt()
        drawn = torch.where(self._tail, heavy, drawn)
        return self._centres.gather(1, which) + drawn * self._spread.gather(1, which)

    def units(
        self,
        causes: Tensor,
        change: Callable[[int, Tensor], Tensor] = lambda layer, x: x,
        *,
        bend: float | Tensor = 0.0,
    ) -> Tensor:
        """Return all units of rows, of shape (B, n, units); `bend` changes the mechanisms."""
        first = not self._scales
        scales = []
        x, found = causes, []
        for layer in range(self.n_layers + 1):
            if layer:
                weights = self._weights[layer - 1]
                weights = weights + bend * self.dice.normal(*weights.shape) * weights.std()
                x = _activated(x @ weights + self._bias[layer - 1], self._shape[layer - 1])
            if first:
                scales.append((x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-3))
            mean, spread = scales[layer] if first else self._scales[layer]
            x = (x - mean) / spread
            if layer:
                x = x + self._noise * self.dice.normal(*x.shape)
            x = change(layer, x)
            found.append(x)
        if first:
            self._scales = scales
        return torch.cat(found, 2)


# -------------------------------------------------------------------------------------- measurement


class Instruments:
    """How columns are measured: which unit, in which form. The same for all rows of a table."""

    FORMS = 9

    def __init__(self, dice: Dice, tables: int, n_units: int, d: int, plain: float) -> None:
        self.dice = dice
        spare = max(2, d // 4)  # units of noise alone
        self._spare = spare
        chosen = dice.uniform(tables, n_units + spare)
        chosen[:, n_units:] += 0.35  # they are chosen less often
        self._unit = chosen.argsort(1)[:, :d]
        short = d - self._unit.shape[1]
        if short:  # fewer units than columns: some are measured twice
            more = (dice.uniform(tables, short) * n_units).long()
            self._unit = torch.cat([self._unit, more], 1)
        form = (self.FORMS * dice.uniform(tables, 1, d)).long()
        self._form = torch.where(dice.chance(tables, 1, d, of=plain), 0, form)
        self._step = dice.uniform(tables, 1, d, low=0.1, high=1.6)
        self._rate = dice.uniform(tables, 1, d, low=0.3, high=1.5)
        self._cut = dice.normal(tables, 1, d)
        self._noise = dice.uniform(tables, 1, d) ** 4 * 0.5
        self._sign = dice.chance(tables, 1, d, of=0.5) * 2.0 - 1.0
        self._codes = dice.order(tables, d, 8).to(torch.float32)

    def measure(self, units: Tensor) -> Tensor:
        """Return columns of shape (B, n, d)."""
        dice = self.dice
        B, n, _ = units.shape
        units = torch.cat([units, dice.normal(B, n, self._spare)], 2)
        x = units.gather(2, self._unit[:, None].expand(-1, n, -1))
        x = self._sign * (x + self._noise * dice.normal(*x.shape)).clamp(-HEAVY, HEAVY)
        close = x.clamp(-FAR, FAR)
        steps = (close / self._step).round()
        coded = self._codes[:, None].expand(-1, n, -1, -1)
        place = (2 * close / self._step + 4).long().clamp(0, 7)
        forms = (
            x,
            torch.exp(self._rate * close),  # lognormal
            close**3 / 4,
            torch.sinh(self._rate * close),
            steps * self._step,  # rounded
            torch.exp(self._rate * (close + self._cut)).clamp(max=200).floor(),  # counts
            torch.relu(close - self._cut),  # zero but for some
            (close > self._cut).to(x.dtype),  # yes or no
            coded.gather(3, place[..., None])[..., 0],  # categories
        )
        found = forms[0]
        for number, form in enumerate(forms[1:], 1):
            found = torch.where(self._form == number, form, found)
        return torch.nan_to_num(found).clamp(-HEAVY, HEAVY)


# ---------------------------------------------------------------------------------------- anomalies

Drawn = tuple[Tensor, Tensor]  # normal rows and anomalies of each table: (B, n, d), (B, a, d)


class Scene(NamedTuple):
    """One model and its instruments, and how many rows are wanted."""

    dice: Dice
    tables: int
    model: CausalModel
    tools: Instruments
    n: int
    a: int
    hows: Mapping[str, float]


def _strength(scene: Scene, low: float, high: float) -> Tensor:
    """A size a table: from faint to gross."""
    return scene.dice.uniform(scene.tables, 1, 1, low=low, high=high)


def _some(scene: Scene, width: int, least: float, most: float) -> Tensor:
    """A few of the columns or units of each table, at least one."""
    share = scene.dice.uniform(scene.tables, 1, 1, low=least, high=most)
    drawn = scene.dice.uniform(scene.tables, 1, width)
    return drawn <= torch.maximum(share, drawn.amin(2, keepdim=True))


def by_class(scene: Scene) -> Drawn:
    """Rows of other classes: a score of units divides one population.

    The normal rows are all but the tail of a unit (a rare event), an interval of it, an area of
    some units, seen or not, or where a small network on the causes tells one class of several.
    """
    dice, B = scene.dice, scene.tables
    share = 0.15 + 0.4 * dice.real() ** 1.5  # of anomalies
    total = math.ceil(max(scene.n / (1 - share), scene.a / share)) + 2
    causes = scene.model.causes(total)
    units = scene.model.units(causes)
    P = units.shape[2]
    picks = (dice.uniform(B, 1, 4) * P).long().expand(-1, total, -1)
    nodes = units.gather(2, picks) * dice.uniform(B, 1, 4, low=0.5, high=1.5)
    how = dice.choose(scene.hows)
    if how == "tail":
        score = nodes[..., 0]
    elif how == "interval":
        score = (nodes[..., 0] - dice.normal(B, 1)).abs()
    elif how == "area":
        score = nodes[..., 1:].amax(2) - nodes[..., 0]
    elif how == "head":
        score = _class_scores(dice, causes)
    elif how == "rules":
        score = _rule_scores(dice, scene.tools.measure(units))
    else:
        score = (nodes[..., :2] + dice.normal(B, 1, 2)).square().sum(2)
    noise = dice.uniform(B, 1, high=0.4) * score.std(1, keepdim=True)
    score = score + noise * dice.normal(B, total)
    order = score.argsort(1)
    cut = total - max(scene.a, round(share * total))
    parts = []
    for of, wanted in ((order[:, :cut], scene.n), (order[:, cut:], scene.a)):
        shuffled = of.gather(1, dice.order(*of.shape))[:, :wanted]
        rows = units.gather(1, shuffled[..., None].expand(-1, -1, P))
        parts.append(scene.tools.measure(rows))
    return parts[0], parts[1]


def _class_scores(dice: Dice, causes: Tensor) -> Tensor:
    """How much another class than the first fits a row, by a random network on its causes."""
    B, _, q = causes.shape
    width, classes = 16, dice.between(2, 8)
    x = (causes - causes.mean(1, keepdim=True)) / (causes.std(1, keepdim=True) + 1e-3)
    x = torch.tanh(x @ dice.normal(B, q, width) / math.sqrt(q) * 1.5 + dice.normal(B, 1, width))
    fit = x @ dice.normal(B, width, classes) / 4
    return fit[..., 1:].amax(2) - fit[..., 0]


def _rule_scores(dice: Dice, columns: Tensor) -> Tensor:
    """How many of some thresholds on columns a row is beyond, with weights."""
    B, _, d = columns.shape
    rules = dice.between(1, min(5, d))
    which = dice.order(B, d)[:, None, :rules].expand(-1, columns.shape[1], -1)
    chosen = columns.gather(2, which)
    row = (dice.uniform(B, 1, rules) * columns.shape[1]).long()
    beyond = (chosen > chosen.gather(1, row)).to(columns.dtype)
    return (beyond * dice.normal(B, 1, rules)).sum(2) + 1e-3 * dice.normal(*beyond.shape[:2])


def by_component(scene: Scene) -> Drawn:
    """Rows of some components of the mixture of causes; the normal rows are of the others."""
    dice, B, model = scene.dice, scene.tables, scene.model
    components = model.n_components
    if components < 2:
        return by_class(scene)
    order = dice.order(B, components)
    normal = dice.between(1, max(1, components // 2))
    found = []
    for rank, n in ((order < normal, scene.n), (order >= normal, scene.a)):
        found.append(scene.tools.measure(model.units(model.causes(n, rank.to(torch.float32)))))
    return found[0], found[1]


def _normal_units(scene: Scene) -> tuple[Tensor, Tensor]:
    causes = scene.model.causes(scene.n + scene.a)
    units = scene.model.units(causes)
    return causes, units


def _both(scene: Scene, normal: Tensor, anomalous: Tensor) -> Drawn:
    return scene.tools.measure(normal[:, : scene.n]), scene.tools.measure(anomalous)


def broken(scene: Scene) -> Drawn:
    """Some units no longer follow their causes: they take the value of another row."""
    causes, units = _normal_units(scene)
    where = scene.dice.between(0, scene.model.n_layers)

    def change(layer: int, x: Tensor) -> Tensor:
        if layer != where:
            return x
        other = x[:, scene.dice.order(x.shape[1])]
        return torch.where(_some(scene, x.shape[2], 0.1, 0.7), other, x)

    return _both(scene, units, scene.model.units(causes[:, scene.n :], change))


def bent(scene: Scene) -> Drawn:
    """The same causes through other mechanisms."""
    causes, units = _normal_units(scene)
    return _both(
        scene, units, scene.model.units(causes[:, scene.n :], bend=_strength(scene, 0.2, 1.2))
    )


def shifted(scene: Scene) -> Drawn:
    """Some units are off by a few deviations, and what follows them, too."""
    causes, units = _normal_units(scene)
    where = scene.dice.between(0, scene.model.n_layers)

    def change(layer: int, x: Tensor) -> Tensor:
        if layer != where:
            return x
        by = scene.dice.normal(scene.tables, 1, x.shape[2]) * _strength(scene, 0.7, 4.0)
        return x + _some(scene, x.shape[2], 0.05, 0.5) * by

    return _both(scene, units, scene.model.units(causes[:, scene.n :], change))


def spread(scene: Scene) -> Drawn:
    """Causes further out, in all directions."""
    causes, units = _normal_units(scene)
    far = causes[:, scene.n :] * _strength(scene, 1.3, 4.0)
    return _both(scene, units, scene.model.units(far))


def grouped(scene: Scene) -> Drawn:
    """A tight group somewhere: near a normal row, or away from all."""
    causes, units = _normal_units(scene)
    q = causes.shape[2]
    centre = causes[:, :1] + scene.dice.normal(scene.tables, 1, q) * _strength(scene, 0.3, 3.0)
    noise = scene.dice.normal(scene.tables, scene.a, q) * _strength(scene, 0.03, 0.6)
    return _both(scene, units, scene.model.units(centre + noise))


def other_component(scene: Scene) -> Drawn:
    """Rows of components of their own."""
    causes, units = _normal_units(scene)
    q, dice = causes.shape[2], scene.dice
    centre = dice.normal(scene.tables, 1, q) * _strength(scene, 0.7, 3.5)
    noise = dice.normal(scene.tables, scene.a, q) * dice.uniform(
        scene.tables, 1, q, low=0.1, high=1.3
    )
    return _both(scene, units, scene.model.units(centre + noise))


def wrong_cells(scene: Scene) -> Drawn:
    """Cells that were recorded wrongly: another unit of measure, a stuck sensor, noise, a sign."""
    _, units = _normal_units(scene)
    normal, rows = scene.tools.measure(units).split([scene.n, scene.a], 1)
    dice, d = scene.dice, normal.shape[2]
    middle, deviation = normal.mean(1, keepdim=True), normal.std(1, keepdim=True)
    how = dice.choose({"units": 1.0, "stuck": 1.0, "noise": 1.0, "sign": 0.5, "elsewhere": 1.5})
    if how == "units":
        wrong = rows * 10 ** (dice.between(1, 3) * (0.5 if dice.real() < 0.5 else -0.5))
    elif how == "stuck":
        wrong = normal[:, :1].expand_as(rows)
    elif how == "noise":
        wrong = rows + deviation * _strength(scene, 0.5, 4.0) * dice.normal(*rows.shape)
    elif how == "sign":
        wrong = 2 * middle - rows
    else:  # from other rows: each cell is plausible alone
        wrong = rows[:, dice.order(scene.a)]
    mask = _some(scene, d, 0.05, 0.8)
    if dice.real() < 0.5:  # other cells in each row
        drawn = dice.uniform(*rows.shape)
        share = dice.uniform(scene.tables, 1, 1, low=0.05, high=0.7)
        mask = drawn <= torch.maximum(share, drawn.amin(2, keepdim=True))
    return normal, torch.where(mask, wrong, rows)


KINDS: dict[str, Callable[[Scene], Drawn]] = {
    "class": by_class,
    "other component": by_component,
    "broken": broken,
    "bent": bent,
    "shifted": shifted,
    "spread": spread,
    "group": grouped,
    "component": other_component,
    "cells": wrong_cells,
}


class World(NamedTuple):
    """How often each kind of anomaly comes, and how columns are measured.

    Attributes
    ----------
    kinds : mapping of str to float
        Weights of `KINDS`.
    plain : float
        Chance that a column is the unit itself; else any form, this one included.
    hows : mapping of str to float
        Weights of the ways in which `by_class` tells classes apart.
    two_kinds : float
        Chance that the anomalies of a table are of two kinds.
    clean : float
        Chance that no anomaly is in the context.
    labelled : float
        Chance that some context rows have labels.
    """

    kinds: Mapping[str, float]
    plain: float = 0.5
    hows: Mapping[str, float] = {"tail": 1.0, "interval": 0.7, "area": 1.5, "mixed": 0.8}
    two_kinds: float = 0.15
    clean: float = 0.35
    labelled: float = 0.3


_CLASSES = {"class", "other component"}
_TAXONOMY = {name: 1.0 for name in KINDS if name not in _CLASSES}
_HOWS = {"tail": 1.0, "interval": 0.7, "area": 1.5, "mixed": 0.8, "head": 2.0, "rules": 1.0}
WORLDS: dict[str, World] = {
    "taxonomy": World(_TAXONOMY),
    "classes": World({"class": 1.0}),
    "mixed": World({**_TAXONOMY, "class": 6.0}),
    "mixed, measured": World({**_TAXONOMY, "class": 6.0}, plain=0.2),
    "more classes": World({"class": 3.0, "other component": 1.0}, hows=_HOWS),
    "more classes, measured": World({"class": 3.0, "other component": 1.0}, hows=_HOWS, plain=0.2),
    "classes, some taxonomy": World(
        {**dict.fromkeys(_TAXONOMY, 0.15), "class": 3.0, "other component": 1.0}, hows=_HOWS
    ),
    "classes, some taxonomy, measured": World(
        {**dict.fromkeys(_TAXONOMY, 0.15), "class": 3.0, "other component": 1.0},
        plain=0.2,
        hows=_HOWS,
    ),
}


def _part(dice: Dice, world: World, B: int, n: int, m: int, d: int) -> Batch:
    """Tables of one causal structure and one or two kinds of anomalies."""
    model = CausalModel(dice, B)
    n_units = model.n_causes + model.n_layers * model.width
    tools = Instruments(dice, B, n_units, d, world.plain)
    hidden = int(MOST_HIDDEN * n)
    scene = Scene(dice, B, model, tools, n + m, hidden + m, world.hows)
    model.units(model.causes(1024))  # sets the scale of the units
    first, *others = (dice.choose(world.kinds) for _ in range(1 + (dice.real() < world.two_kinds)))
    normal, anomalous = KINDS[first](scene)
    for other in others:
        if not _CLASSES & {first, other}:  # classes divide one population: nothing to add to it
            _, more = KINDS[other](scene)
            anomalous = torch.where(dice.chance(B, scene.a, 1, of=0.5), more, anomalous)
    rate = dice.uniform(B, 1) ** 1.5 * MOST_HIDDEN
    rate = torch.where(dice.chance(B, 1, of=world.clean), 0.0, rate)
    is_hidden = dice.chance(B, n, of=rate)
    # The i-th hidden anomaly is the i-th of those drawn; there are enough.
    turn = (is_hidden.cumsum(1) - 1).clamp(0, hidden - 1)[..., None].expand(-1, -1, d)
    hidden_rows = anomalous[:, :hidden].gather(1, turn)
    context = torch.where(is_hidden[..., None], hidden_rows, normal[:, :n])
    rows = torch.cat([context, normal[:, n:], anomalous[:, hidden:]], 1)
    is_anomaly = torch.cat(
        [is_hidden, (torch.arange(2 * m, device=rows.device) >= m).repeat(B, 1)], 1
    )
    return Batch(rows, is_anomaly, _known(dice, world, is_hidden))


def _known(dice: Dice, world: World, is_hidden: Tensor) -> Tensor:
    """Labels of context rows: none, some of both, or of some anomalies and all normal rows."""
    B, n = is_hidden.shape
    some = dice.chance(B, 1, of=world.labelled)
    asked = dice.chance(B, n, of=dice.uniform(B, 1) ** 2 * 0.5)
    vouched = dice.chance(B, 1, of=0.5)
    known = torch.where(is_hidden, -1.0 * asked, 1.0 * (asked | vouched))
    return known * some


def draw_batch(dice: Dice, world: World, tables: int, n: int, m: int, parts: int = 4) -> Batch:
    """Draw so many tables, in parts that share structure, of one number of columns.

    Parameters
    ----------
    dice : Dice
        Random numbers.
    world : World
        What tables are like.
    tables, n, m : int
        Tables; context rows; rows to score of either kind.
    parts : int
        Causal structures and kinds of anomalies in the batch.
    """
    d = min(MOST_COLUMNS, round(2 * 2 ** (4 * dice.real())))
    found = [_part(dice, world, tables // parts, n, m, d) for _ in range(parts)]
    return Batch(*(torch.cat(of) for of in zip(*found, strict=True)))
