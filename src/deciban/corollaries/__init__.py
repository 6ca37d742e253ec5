"""What follows once a model is a sum: leave-one-out, forgetting, explanation, generation, missing values."""
