"""Fused detectors that are quick to fit, and a name that is an attack, for tests of the report."""

from helpers.pools import Distance
from lpfuse import FusedDetector

NASTY = "</script><img src=x onerror=\"document.title='hit'\">'&amp;\u2028{{ 7*7 }}\u202e"


def pool():
    """Detectors that are quick to fit; one looks at one column only."""
    return [
        ("all", Distance()),
        ("left", Distance(columns=slice(2))),
        ("right", Distance(columns=slice(1, 4))),
        ("first", Distance(), [0]),
    ]


def fitted(X, y=None, detectors=None, **options):
    return FusedDetector(detectors or pool(), random_state=0, **options).fit(X, y)
