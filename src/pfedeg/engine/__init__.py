"""Local training and ranking: the interface, its numpy specification, and compiled code that is as exact and fast."""
