"""Why others are closer, by data, question and our method: one investigated sentence each."""

REASONS: dict[tuple[str, str, str], str] = {}
