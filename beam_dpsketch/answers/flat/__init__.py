"""Released sketches without levels."""
