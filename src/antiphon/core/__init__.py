"""The words every tier speaks: errors, sampling parameters, outputs. Standard library only."""
