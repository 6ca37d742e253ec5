"""Columns that are independent given the class, or depend on one other: a distribution for each."""
