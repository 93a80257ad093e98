"""Interfaces of other libraries for detectors of lpfuse: `pyod` and `river`."""
