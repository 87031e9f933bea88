"""Training objectives, one per file, and the regularisers that tie a client's tables to what the server sent."""
