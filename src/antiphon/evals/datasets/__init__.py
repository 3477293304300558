"""Data sets as items that can be asked, each with what is known to be right."""
