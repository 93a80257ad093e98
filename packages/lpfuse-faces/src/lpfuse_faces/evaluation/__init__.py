"""How well forgeries of a kind that was never seen are found, on clips of your own.

Each kind of forgery is left out of everything but the test (`leave_one_manipulation_out`), and
methods of fusion are compared on the same scores of the same learners (`fusion_methods`).
"""

from lpfuse_faces.evaluation._methods import (
    FittedMethod,
    LearningData,
    Method,
    decision_threshold,
    fusion_methods,
    single_learner,
)
from lpfuse_faces.evaluation._protocol import (
    SETTINGS,
    LeaveOneManipulationOut,
    Row,
    leave_one_manipulation_out,
)
from lpfuse_faces.evaluation._scores import FOLDS, ScoredClips, ScoredVideos, score_clips

__all__ = [
    "FOLDS",
    "SETTINGS",
    "FittedMethod",
    "LearningData",
    "LeaveOneManipulationOut",
    "Method",
    "Row",
    "ScoredClips",
    "ScoredVideos",
    "decision_threshold",
    "fusion_methods",
    "leave_one_manipulation_out",
    "score_clips",
    "single_learner",
]
