"""A federation over a network: messages, server, clients, and Flower, which carries the messages."""
