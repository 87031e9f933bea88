"""Training: settings, clients, the round loop, evaluation and run folders."""
