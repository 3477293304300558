"""Load benchmark: sends requests of a data set to a server over the wire and measures what comes back, and when."""
