"""Words counted for other models, as scikit-learn's CountVectorizer counts them."""
