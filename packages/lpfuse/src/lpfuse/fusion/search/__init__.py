"""Weights found by trial: genetic search, particle swarm, and a grid over the simplex.

All three maximise the same `Fitness` over weights that are not negative and sum to 1.
"""

from lpfuse.fusion.search._exhaustive import ExhaustiveWeights
from lpfuse.fusion.search._fitness import Fitness
from lpfuse.fusion.search._genetic import GeneticWeights
from lpfuse.fusion.search._swarm import SwarmWeights

__all__ = ["ExhaustiveWeights", "Fitness", "GeneticWeights", "SwarmWeights"]
