"""Time and memory of the learners: ``python -m research.speed.detectors``."""
