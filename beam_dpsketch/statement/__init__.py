"""What a release says of itself: its promise in numbers and words, its name, and both in bytes."""
