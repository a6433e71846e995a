"""`dpsketch plot`: answers as pictures, without display or pyplot; `beam_dpsketch.plots` draws them."""
