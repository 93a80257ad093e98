"""The paper's experiments, the studies behind defaults, speed benchmarks. Never installed."""
