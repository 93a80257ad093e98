"""``lpfuse faces``: from videos of faces to verdicts, one file a command."""
