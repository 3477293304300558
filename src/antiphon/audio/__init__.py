"""PCM, decoding, resampling, mel spectra and reference-voice features, in numpy."""
