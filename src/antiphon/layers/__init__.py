"""Torch building blocks that know no model."""
