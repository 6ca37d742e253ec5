"""Labels, weights and tables of any type as arrays of numbers and of levels, and back."""
