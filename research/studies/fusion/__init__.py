"""The study behind ``docs/adr/0006``: pool, experts and fusion of the default `FusedDetector`."""
