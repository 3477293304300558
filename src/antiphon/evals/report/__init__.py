"""What a set of scored items amounts to, as JSON, Markdown and a picture."""
