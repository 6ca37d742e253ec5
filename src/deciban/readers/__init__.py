"""How rows become what a model learns from and scores: one file for each way of reading them."""
