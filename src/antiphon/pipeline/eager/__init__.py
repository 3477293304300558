"""Batch-1 generation without an engine, step by step as the reference does it: the slow twin of the engine."""
