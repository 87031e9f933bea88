"""Ways between server and clients."""
