"""Questions about two releases of one spec: products, distances, and what changed."""
