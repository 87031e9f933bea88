"""Import of users' own graphs in many formats."""
