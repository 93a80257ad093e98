"""What holds for all tests of this package."""

from hypothesis import HealthCheck, settings

from helpers.signals import heed_sigint as heed_sigint  # a fixture for all tests

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
