"""Plans over a range of a quantity: what is swept, the inputs of each point, what the points show together."""
