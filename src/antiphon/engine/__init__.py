"""What decides a stage's next step: sampling rules, windows, buffers."""
