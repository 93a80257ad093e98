"""A stand-in data set, made on the spot: short videos of faces, genuine and forged.

Photographs that ship with scikit-image and matplotlib (`photographs`) are filmed by a simulated
camera (`filming`), faces are manipulated (`manipulations`), and all clips are compressed alike
(`collection`). No picture is kept in the project.

It shows that everything from the video to the verdict works together. It is no evidence of how
well forgeries of the real world are found: there are three faces, and the manipulations are simple.
"""

from lpfuse_faces.stand_in._collection import make_stand_in
from lpfuse_faces.stand_in._manipulations import CONTROL, FAMILIES
from lpfuse_faces.stand_in._photographs import PHOTOGRAPHS

__all__ = ["CONTROL", "FAMILIES", "PHOTOGRAPHS", "make_stand_in"]
