"""Folders of outputs: what came of each item, kept so that it can be scored again."""
