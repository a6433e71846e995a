"""`dpsketch run`: releases of Parquet and CSV files."""
