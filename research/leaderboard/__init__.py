"""Anomaly detectors on public tables, ranked: `python -m research.leaderboard`, `make leaderboard`.

`protocol` says what is measured, `methods` who takes part, `page` what is shown of the stored rows.
"""
