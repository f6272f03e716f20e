"""Serve judgements and fields over HTTP: jobs on uploaded files, tensors by the Open Inference Protocol."""
