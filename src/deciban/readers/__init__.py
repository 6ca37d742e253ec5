"""How rows become what a model learns from and is asked about: one file for each way of reading them."""
