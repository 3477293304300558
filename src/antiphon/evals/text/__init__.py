"""Scores of text: word errors and chosen letters."""
