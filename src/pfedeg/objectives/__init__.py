"""Training objectives, one per file, and the regularisers towards the rows received from the server."""
