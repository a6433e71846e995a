"""The public benchmark: this package, PipelineDP, OpenDP and a plain histogram on public data."""
