"""Results about a model, as values that render themselves in a terminal, a notebook and HTML."""
