"""Estimators with scikit-learn's names, parameters and attributes. Only here is scikit-learn imported."""
