"""Estimators with scikit-learn's names, parameters and attributes. scikit-learn is imported only here."""
