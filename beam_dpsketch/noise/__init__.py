"""Raw sketches to released ones, without Beam: what is chosen, and the noise."""
