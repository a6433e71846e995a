"""What may be asked of two releases."""
