"""Export of trained tables to other programs, one format per module."""
