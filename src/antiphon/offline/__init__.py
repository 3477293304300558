"""The pipeline without a server: generation in process, verification, the tiny checkpoint."""
