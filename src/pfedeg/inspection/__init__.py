"""Inspection of a federation before training: sizes, overlap, leakage, spelling variants, cost."""
