"""Two evaluations of the same items under the same scorers, item by item."""
