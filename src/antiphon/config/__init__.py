"""What a checkpoint says about itself, and what an operator may set."""
