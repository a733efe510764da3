"""Where records of runs are kept, and what is known from them."""
