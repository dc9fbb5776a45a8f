"""Policies as files that run without PyTorch: ONNX (float32 or int8) and TorchScript. Nothing is imported
here: an exported policy must start with NumPy and onnxruntime alone."""
