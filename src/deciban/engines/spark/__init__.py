"""Spark: data frames, classic or through Spark Connect."""
