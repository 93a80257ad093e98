"""What holds for all tests of this package."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

# These define classes of torch: without it they cannot even be imported for their examples.
collect_ignore_glob = [] if find_spec("torch") else ["src/lpfuse_faces/networks/[a-z]*.py"]

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
