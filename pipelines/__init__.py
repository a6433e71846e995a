"""Example pipelines; run each as `python -m pipelines.<name>` from the top folder."""
