"""The forward passes of Code2Wav for batches of streams, on fixed device buffers that a captured graph can use."""
