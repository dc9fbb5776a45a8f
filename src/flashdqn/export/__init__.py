"""Policies as files that run without PyTorch: ONNX (float32 or int8) and TorchScript. Nothing is imported here, so
that `player.py` starts with NumPy and onnxruntime alone."""
