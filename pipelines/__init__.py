"""Example pipelines. Run each as `python -m pipelines.<name>` from the top folder."""
