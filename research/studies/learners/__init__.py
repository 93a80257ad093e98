"""Which defaults serve the one-class learners best, and how close their approximations come."""
