"""Arrays of any library, threads and blocks: what all numeric code stands on.

`operations` knows array libraries, `threads` our own threads and memory limits, `linalg` linear
algebra, `blocks` Dask.
"""
