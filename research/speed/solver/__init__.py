"""Time to a certified optimum: ``python -m research.speed.solver``."""
