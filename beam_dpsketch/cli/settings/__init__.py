"""`dpsketch plan` and `check`: what settings of a release mean, before there are data."""
