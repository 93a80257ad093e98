"""As in a browser: no threads, no processes, one core. The rest of Python is as it is here."""

import subprocess
import sys

# What Pyodide has not, refused in the words that it uses; scikit-learn is loaded before, since it
# asks for its own platform.
NO_THREADS = """
import _thread
import os
import subprocess
import sys
import threading
import numpy as np
import scipy.optimize, sklearn.ensemble, sklearn.neighbors, sklearn.pipeline, sklearn.svm

def refuse(*arguments, **options):
    raise RuntimeError("can't start new thread")

assert not [name for name in sys.modules if name.startswith("lpfuse")]
sys.platform = "emscripten"
_thread.start_new_thread = threading._start_new_thread = refuse
threading._start_joinable_thread = refuse
os.fork = subprocess.Popen = refuse
sys.modules["_multiprocessing"] = None
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    raise SystemExit("a thread started: this test tests nothing")
"""


WORK = """
import lpfuse
rng = np.random.default_rng(0)

# More rows than one block, which are spread over threads elsewhere.
y = np.where(rng.random(270_000) < 0.1, -1, 1)
S = y[:, None] * [0.8, 0.5, 0.3, 0.1] + rng.normal(0, 0.6, (270_000, 4))
assert S.nbytes > 2**23
assert lpfuse.LpFusion(p=2).fit(S, y).certificate_.relative_gap < 1e-6

X = rng.normal(size=(120, 4))
y = np.zeros(120, dtype=int)
X[:12] += 4.0
y[:12] = -1
fused = lpfuse.FusedDetector(random_state=0).fit(X, y)
assert (fused.predict(X[:12]) < 0).mean() > 0.5
fused.explain(X[:2])
fused.save(sys.argv[1])
again = lpfuse.load(sys.argv[1])
np.testing.assert_array_equal(again.score_samples(X), fused.score_samples(X))
"""


def test_weights_and_detectors_need_no_threads(tmp_path):
    """Weights are learnt; a detector is fitted, asked, saved and loaded."""
    command = [sys.executable, "-W", "error", "-c", NO_THREADS + WORK, tmp_path / "model.lpfuse"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 0, told.stderr
