"""How well forgeries of a kind that was never seen are found, on clips of your own.

Each kind of forgery is left out of everything but the test (`leave_one_manipulation_out`), and
methods of fusion are compared on the same scores of the same learners (`fusion_methods`). With
``preset="paper"`` learners, choices and weights are those that the paper prints (`paper_methods`).
"""

from lpfuse_faces.evaluation._chosen import PAPER_RHOS, ChosenFusion, paper_methods
from lpfuse_faces.evaluation._methods import (
    FittedMethod,
    LearningData,
    Method,
    decision_threshold,
    fusion_methods,
    single_learner,
)
from lpfuse_faces.evaluation._presets import PAPER_SETS
from lpfuse_faces.evaluation._protocol import (
    SETTINGS,
    LeaveOneManipulationOut,
    Row,
    leave_one_manipulation_out,
)
from lpfuse_faces.evaluation._scores import FOLDS, ScoredClips, ScoredVideos, score_clips

__all__ = [
    "FOLDS",
    "PAPER_RHOS",
    "PAPER_SETS",
    "SETTINGS",
    "ChosenFusion",
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
    "paper_methods",
    "score_clips",
    "single_learner",
]
