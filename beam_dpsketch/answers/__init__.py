"""What users hold and ask: released sketches, their answers, and files of them."""
