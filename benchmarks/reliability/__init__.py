"""The same workloads, killed in the same way, on several systems; see `compare.py`."""
