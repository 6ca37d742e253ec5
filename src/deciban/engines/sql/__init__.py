"""Databases: connections, statements, and rows of answers read as statistics."""
