"""Serve models over HTTP: files and features in, judgements and fields out, as jobs."""
