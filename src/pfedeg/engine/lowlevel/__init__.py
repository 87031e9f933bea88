"""What compiled code stands on: compilation, threads, vectors, aligned memory."""
