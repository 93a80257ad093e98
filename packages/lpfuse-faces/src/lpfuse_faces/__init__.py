"""Face forgery: from video to fused decision.

Frames of a video → faces → regions of the face → spectra → features → learners → one score a video.
Needs ``pip install lpfuse-faces``, and torch (``lpfuse-faces[networks]``) for deep features.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lpfuse_faces._cache import FeatureCache
    from lpfuse_faces._detection.mtcnn import MTCNN
    from lpfuse_faces._detector import VideoDetector
    from lpfuse_faces._extraction import extract_all, learn_stretch
    from lpfuse_faces._extractor import Extractor
    from lpfuse_faces._features import VideoFeatures
    from lpfuse_faces._limits import Limits, UnreadableVideo
    from lpfuse_faces._networks import load_network
    from lpfuse_faces._settings import Settings
    from lpfuse_faces._verdict import VideoVerdict
    from lpfuse_faces._video import Sampling
    from lpfuse_faces.clips import Clip, read_clips
    from lpfuse_faces.stand_in import make_stand_in

__all__ = [
    "MTCNN",
    "Clip",
    "Extractor",
    "FeatureCache",
    "Limits",
    "Sampling",
    "Settings",
    "UnreadableVideo",
    "VideoDetector",
    "VideoFeatures",
    "VideoVerdict",
    "extract_all",
    "learn_stretch",
    "load_network",
    "make_stand_in",
    "read_clips",
]

# Modules are imported when one of their names is first asked for: reading a list of clips does not
# load the detector of faces.
_HOMES = {
    "MTCNN": "_detection.mtcnn",
    "Clip": "clips",
    "Extractor": "_extractor",
    "FeatureCache": "_cache",
    "Limits": "_limits",
    "Sampling": "_video",
    "Settings": "_settings",
    "UnreadableVideo": "_limits",
    "VideoDetector": "_detector",
    "VideoFeatures": "_features",
    "VideoVerdict": "_verdict",
    "extract_all": "_extraction",
    "learn_stretch": "_extraction",
    "load_network": "_networks",
    "make_stand_in": "stand_in",
    "read_clips": "clips",
}


if not TYPE_CHECKING:  # a checker that saw it would take every name for one that there is

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(f"lpfuse_faces.{_HOMES[name]}"), name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
