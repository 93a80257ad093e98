"""Deep features of spectra: Inception-v3, DarkNet-19 and AlexNet.

The networks are torch modules of our own: ``pip install "lpfuse-faces[networks]"`` brings torch,
which is imported when a network is loaded and not before.
"""

from lpfuse_faces._networks.loading import FeatureNetwork, load_network
from lpfuse_faces._networks.specification import NETWORKS, PRECISIONS, Network

__all__ = ["NETWORKS", "PRECISIONS", "FeatureNetwork", "Network", "load_network"]
