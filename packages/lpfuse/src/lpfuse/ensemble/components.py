"""The parts of a `FusedDetector` that users meet beside the class itself.

* `default_detectors` and `default_fusion` are what it takes where users say nothing;
  `named_detectors` are the detectors that names stand for;
* `fit_detectors` fits detectors once, for ``cv="prefit"``;
* `Combination` is a fitted scaler and a fitted fusion: raw scores in, fused scores out;
* `outcome` is what was learnt, in plain values, and `proof` how good the weights are, in words;
* `HeldOutScores`, `Verdicts` and `Explanation` are what its attributes and methods return.

Examples
--------
>>> import numpy as np
>>> from lpfuse import FusedDetector, GMMDetector
>>> from lpfuse.ensemble.components import Combination
>>> X = np.random.default_rng(0).normal(size=(100, 2))
>>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
>>> combination = Combination(fused.scaler_, fused.fusion_)
>>> scores = combination.score_samples(fused.detector_scores(X))
>>> bool((scores == fused.score_samples(X)).all())
True
"""

from lpfuse.ensemble.calibration import HeldOutScores
from lpfuse.ensemble.combination import Combination
from lpfuse.ensemble.defaults import default_detectors, default_fusion, named_detectors
from lpfuse.ensemble.explain import Explanation
from lpfuse.ensemble.out_of_fold import fit_detectors
from lpfuse.ensemble.scoring import Verdicts
from lpfuse.ensemble.summary import outcome, proof

__all__ = [
    "Combination",
    "Explanation",
    "HeldOutScores",
    "Verdicts",
    "default_detectors",
    "default_fusion",
    "fit_detectors",
    "named_detectors",
    "outcome",
    "proof",
]
