"""Face forgery: from video to fused decision.

Frames of a video → faces → regions of the face → spectra → features → experts → one score a video.
Needs ``pip install lpfuse-faces``, and torch (``lpfuse-faces[networks]``) for deep features.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lpfuse_faces.cache import FeatureCache
    from lpfuse_faces.clips import Clip, read_clips
    from lpfuse_faces.detector import VideoDetector
    from lpfuse_faces.extraction import extract_all, learn_stretch
    from lpfuse_faces.extractor import Extractor
    from lpfuse_faces.features import Settings, VideoFeatures
    from lpfuse_faces.mtcnn import MTCNN
    from lpfuse_faces.networks import load_network
    from lpfuse_faces.stand_in import make_stand_in
    from lpfuse_faces.video import Sampling

__all__ = [
    "MTCNN",
    "Clip",
    "Extractor",
    "FeatureCache",
    "Sampling",
    "Settings",
    "VideoDetector",
    "VideoFeatures",
    "extract_all",
    "learn_stretch",
    "load_network",
    "make_stand_in",
    "read_clips",
]

# Loaded when they are first asked for: reading a list of clips needs no detector of faces.
_HOMES = {
    "MTCNN": "mtcnn",
    "Clip": "clips",
    "Extractor": "extractor",
    "FeatureCache": "cache",
    "Sampling": "video",
    "Settings": "features",
    "VideoDetector": "detector",
    "VideoFeatures": "features",
    "extract_all": "extraction",
    "learn_stretch": "extraction",
    "load_network": "networks",
    "make_stand_in": "stand_in",
    "read_clips": "clips",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f"lpfuse_faces.{_HOMES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
