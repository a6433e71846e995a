"""Releases and their answers. Importing any part registers the classes of all releases."""

from beam_dpsketch.answers import counts, factor, flat, metrics, statistics, tree
