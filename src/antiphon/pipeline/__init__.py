"""The three stages put together: building them, and driving one request or session through them."""
