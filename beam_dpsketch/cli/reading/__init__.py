"""Files of records to batches."""
