"""Gaussians over all columns at once, one a class or several."""
