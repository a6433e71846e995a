"""How much is in a release: what it says of its side counters, and the answers from them."""
