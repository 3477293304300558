"""Where requests come from: made up (`random`, `random-mm`) or read from a folder or file."""
