"""Drift found and dated: streams of 10,000 rows that stay as they are, or change half way.

Every watcher sees the same ten columns and the same fused score, and is judged at equal false
alarms: its line is where so many of the streams that do not change would cross it.
"""
