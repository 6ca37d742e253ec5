"""Models as files: a safe container, written atomically, checked when read."""
