"""Tables: whatever people call one, as columns of numbers and of levels; and what each column is."""
