"""Code2Wav: conformer up-sampling encoder, flow-matching DiT, HiFT vocoder."""
