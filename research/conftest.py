"""What holds for all tests of research."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

from helpers.signals import heed_sigint as heed_sigint  # a fixture for all tests

# Benchmarks of networks and devices are read for their examples where torch is.
if not find_spec("torch"):
    collect_ignore = [
        "speed/device_learners.py",
        "speed/faces/networks.py",
        "speed/faces/tables.py",
        "speed/faces/training.py",
        "speed/scaling/device.py",
        "speed/scaling/device_passes.py",
    ]

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
