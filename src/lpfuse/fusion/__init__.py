"""Ways to turn the scores of several detectors into one: a file a family, one interface."""
