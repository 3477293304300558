"""Weights and forward passes of the three stages, and the loader that fills them."""
