"""Models in other languages: a model is a sum, and SQL and ONNX can add up. `formula` is what they both speak from."""
