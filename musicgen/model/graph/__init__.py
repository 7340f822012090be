"""A model's step as an ONNX graph, and the engine that runs it."""
