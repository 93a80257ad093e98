"""Time and memory of the learners: ``python -m benchmarks.detectors``."""
