"""What the face pipeline costs, and what it finds."""

from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results" / "speed" / "faces"
