"""What a run on a real cloud comes up against first; see `__main__.py`."""
