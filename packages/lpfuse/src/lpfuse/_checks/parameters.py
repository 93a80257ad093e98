"""Moved: see `arguments`."""

from lpfuse._checks.arguments import check_choice, check_count, check_number, check_p, is_count

__all__ = ["check_choice", "check_count", "check_number", "check_p", "is_count"]
