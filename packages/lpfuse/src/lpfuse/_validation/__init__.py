"""Validation of everything that users pass: tables, per-row values and parameters."""
