"""How fast Augury is, beside other systems and beside bars; one module for each measurement, and `run.py` runs them."""
