"""From text and media to token ids and features."""
