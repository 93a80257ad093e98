"""Rows that come in time order: real pumps and metrics, made-up rows with known truth."""
