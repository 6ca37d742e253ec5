"""Ways to look at a row: each learns sums, and says how likely the row is under every class."""
