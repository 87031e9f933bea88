"""Training: settings, clients, the round loop, evaluation, run folders."""
