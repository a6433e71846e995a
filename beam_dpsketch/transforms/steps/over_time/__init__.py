"""Continual release: from the windows of a horizon to rows with noise."""
