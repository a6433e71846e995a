"""Released trees."""
