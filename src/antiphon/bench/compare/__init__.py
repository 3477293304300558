"""Compares result files of the load benchmark."""
