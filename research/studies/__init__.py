"""Studies behind the defaults: one folder a question."""
