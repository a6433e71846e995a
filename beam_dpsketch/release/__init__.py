"""The one place where counters meet noise, what may be asked of the result, and its bytes."""
