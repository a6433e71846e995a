"""The checks before a pipeline runs: of types, of samples, of steps that copy records, and of what runners do."""
