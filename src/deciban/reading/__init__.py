"""Whatever people have: labels, weights and tables of any make, as arrays of numbers and of levels, and back."""
