"""What operators run: folders, certificates, secrets, processes, the proxy."""
