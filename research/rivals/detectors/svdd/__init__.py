"""One ball around the training rows."""
