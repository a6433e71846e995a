"""Noisy counters to estimates: arrays and numbers in, arrays out."""
