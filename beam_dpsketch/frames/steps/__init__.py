"""Steps for a table in this process: read, bound, sum exactly, and draw noise once."""
