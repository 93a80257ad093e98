"""Arrays of any library: `operations` (with threads), `linalg`, and `blocks` of Dask."""
