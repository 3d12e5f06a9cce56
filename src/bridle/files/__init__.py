"""Bytes, nothing about SVMs: atomic writes, the container of model files, fingerprints."""
