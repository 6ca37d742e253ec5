"""A file for each command, with its name."""
