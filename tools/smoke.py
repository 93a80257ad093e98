"""What a user does first, with what is installed: fit, judge, prove, save, load, a card.

``python -I smoke.py VERSION FORM``, in a folder that may be written to.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

import lpfuse
from lpfuse import FusedDetector, LpFusion
from lpfuse.optim import solver_core

assert version("lpfuse") == sys.argv[1], version("lpfuse")
assert Path(sys.prefix) in Path(lpfuse.__file__).parents, lpfuse.__file__  # not a clone
assert solver_core() == sys.argv[2], solver_core()
assert (Path(lpfuse.__file__).parent / "py.typed").is_file()

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(size=(300, 3)), rng.normal(1.5, 1, size=(20, 3))])
y = np.repeat([1, -1], [300, 20])

fused = FusedDetector(random_state=0).fit(X, y)
assert fused.predict([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]]).tolist() == [1, -1]
assert fused.certificate_.relative_gap <= 1e-6
fusion = LpFusion(p=2).fit(y[:, None] + rng.normal(size=(320, 3)), y)
assert fusion.certificate_.relative_gap <= 1e-8

fused.save("model.lpfuse")
again = lpfuse.load("model.lpfuse")
assert np.array_equal(again.score_samples(X), fused.score_samples(X))
again.card("card.md", use="To see whether it works.")
assert Path("card.md").read_text(encoding="utf-8").startswith("# Model card")
assert version("lpfuse-cli") == sys.argv[1], version("lpfuse-cli")
print("lpfuse", version("lpfuse"), sys.argv[2], "works with NumPy", np.__version__)
