"""Models as files: one safe container, written whole or not at all, checked when read."""
