"""Answers from trained tables, with names, explanations and probabilities."""
