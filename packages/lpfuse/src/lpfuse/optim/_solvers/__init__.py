"""Solvers for problems whose rows are in memory."""
