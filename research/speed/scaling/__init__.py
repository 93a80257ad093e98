"""Growth of costs on CPU, GPU and Dask: ``python -m research.speed.scaling``."""
