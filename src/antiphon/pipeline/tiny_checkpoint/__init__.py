"""A checkpoint of the real layout with tiny sizes and random weights: what tests and the first demo run on."""
