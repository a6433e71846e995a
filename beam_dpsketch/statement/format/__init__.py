"""The bytes of a release."""
