"""The scikit-learn face: estimators with scikit-learn's names, parameters and attributes. Only here is it imported."""
