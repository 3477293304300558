"""Scores outputs: one part for each side of them, and what a part gives an item."""
