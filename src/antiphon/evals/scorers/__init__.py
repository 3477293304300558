"""What listens in place of a person: recognisers of words and encoders of voices, each with name and version."""
