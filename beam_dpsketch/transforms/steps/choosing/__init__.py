"""The steps that choose what the data decide: a norm, or keys."""
