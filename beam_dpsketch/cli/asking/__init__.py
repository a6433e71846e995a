"""`dpsketch query` and `plot`: what releases answer, as rows and as pictures."""
