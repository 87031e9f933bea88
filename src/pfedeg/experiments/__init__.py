"""Grids of runs, tuning on validation data, and reports on the results."""
