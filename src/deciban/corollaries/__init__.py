"""What follows from a model being a sum: leave-one-out, forgetting, explanation, sampling, missing values."""
