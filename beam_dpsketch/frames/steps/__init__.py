"""The steps of a table in this process: read, bound, sum exactly, and draw noise once."""
