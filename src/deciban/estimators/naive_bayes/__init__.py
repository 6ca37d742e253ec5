"""Columns that are independent given the class, or hang on one other: a law for each."""
