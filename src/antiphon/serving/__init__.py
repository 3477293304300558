"""The HTTP server: thin handlers around the pipeline."""
