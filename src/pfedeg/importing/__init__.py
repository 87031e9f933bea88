"""Graphs of users' own, in whatever form they come, made into a client that trains."""
