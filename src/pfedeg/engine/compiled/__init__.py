"""The compiled engine: training loops, negative sampling and ranking, compiled by numba."""
