"""Columns that are independent given the class, or depend on one other: a law for each."""
