"""The examples of the guides are tests; what builds the site is none, and needs Sphinx."""

collect_ignore = ["site"]
