"""Certificates judged in exact arithmetic, over problems made to break them."""
