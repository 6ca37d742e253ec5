"""Engines: collect(source, joint) → Stats, wherever the data is. Each is one file with the same two verbs."""
