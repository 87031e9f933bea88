"""What operators run: folders, certificates, secrets, long-running processes, the proxy."""
