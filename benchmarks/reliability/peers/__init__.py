"""The systems that are compared under faults, one module each."""
