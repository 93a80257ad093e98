"""Interfaces of other libraries for detectors of lpfuse: `pyod`, `river` and `estimators`."""
