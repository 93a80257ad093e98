"""Benchmarks of lpfuse: one rival a file, one judge, results stored before they are shown."""
