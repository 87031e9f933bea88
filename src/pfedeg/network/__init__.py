"""A federation over a network: messages, the server's side, the client's side, Flower as the engine."""
