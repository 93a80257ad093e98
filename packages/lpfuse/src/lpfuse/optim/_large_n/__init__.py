"""Sample, partition, solve, verify: for more rows than one would copy."""
