"""What is answered about a model, as values that show themselves in a terminal, a notebook and HTML."""
