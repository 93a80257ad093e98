"""Time to a certified optimum: ``python -m benchmarks.solver`` (see ``benchmarks/README.md``)."""
