"""Every way to fuse scores against the others, on the development sets."""
