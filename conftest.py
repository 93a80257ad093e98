"""What pytest leaves out where an optional package is missing."""

from importlib.util import find_spec

# These define classes of torch: without it they cannot even be imported for their examples.
collect_ignore_glob = (
    [] if find_spec("torch") else ["packages/lpfuse-faces/src/lpfuse_faces/networks/[a-z]*.py"]
)
