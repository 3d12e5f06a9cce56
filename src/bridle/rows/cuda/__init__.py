"""Rows on a GPU: CuPy's arrays, and kernels that are compiled when they are first used."""
