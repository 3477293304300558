"""The Talker: conditioning and the codec language model."""
