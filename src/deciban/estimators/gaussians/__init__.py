"""Gaussians over all columns, one or several for each class."""
