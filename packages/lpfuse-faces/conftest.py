"""What holds for all tests of this package."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

# These define classes of torch: without it they cannot even be imported for their examples.
OF_TORCH = ("alexnet", "darknet", "inception", "layers", "torch_network")
collect_ignore = (
    [] if find_spec("torch") else [f"src/lpfuse_faces/_networks/{name}.py" for name in OF_TORCH]
)

# A busy machine must not fail a test, and a run should find tomorrow what it finds today;
# `--hypothesis-profile=default` looks for new examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
