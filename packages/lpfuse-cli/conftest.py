"""What holds for all tests of this package."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
