"""Models in other languages: a model is a sum, and SQL and ONNX can add. Both are written from `formula`."""
