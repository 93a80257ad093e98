"""Clips: videos and what is known of them, read from folders or a table, with people kept apart.

A :class:`Clip` names a video, whether it is genuine or forged, who is in it, and which of training,
validation and test it serves. No two of these splits may share a person.
"""

from lpfuse_faces.clips._clip import SPLITS, Clip
from lpfuse_faces.clips._faceforensics import KINDS, faceforensics, is_faceforensics
from lpfuse_faces.clips._people import check_disjoint, identity_groups, with_splits
from lpfuse_faces.clips._sources import qualities, read_clips
from lpfuse_faces.clips._table import CLIPS_CSV, write_clips

__all__ = [
    "CLIPS_CSV",
    "KINDS",
    "SPLITS",
    "Clip",
    "check_disjoint",
    "faceforensics",
    "identity_groups",
    "is_faceforensics",
    "qualities",
    "read_clips",
    "with_splits",
    "write_clips",
]
