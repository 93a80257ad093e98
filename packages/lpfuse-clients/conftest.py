"""What holds for all tests of this package."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

from helpers.signals import heed_sigint as heed_sigint  # a fixture for all tests

# Its examples need river, which is an extra that the extra `test` does not bring.
collect_ignore = [] if find_spec("river") else ["src/lpfuse_clients/river.py"]

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
