"""A look at a federation before training: what is there, what does not fit together, what training would take."""
