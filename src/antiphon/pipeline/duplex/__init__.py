"""Full-duplex sessions over the stages."""
