"""What other programs take from `dpsketch`: shells, Java and Go."""
