"""Trained agents: `agent.py` plays with PyTorch, `onnx.py` with onnxruntime alone."""
