"""The three stages: each an engine behind the contract of the device loop."""
