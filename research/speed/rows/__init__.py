"""From rows to verdicts: what a `FusedDetector` costs, and beside whom."""
