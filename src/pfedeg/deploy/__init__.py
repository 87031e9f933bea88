"""A federation between organisations: keys, folders, processes and commands of the server and of each client."""
