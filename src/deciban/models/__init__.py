"""The scikit-learn face: thin estimators with scikit-learn's names, parameters and attributes."""
