"""The Thinker: Qwen3 decoder, SigLIP vision encoder with resampler, whisper-style audio encoder."""
