"""Cost growth on CPU, GPU and Dask: ``python -m benchmarks.scaling`` (``benchmarks/README.md``)."""
