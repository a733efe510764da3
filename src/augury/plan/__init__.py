"""Planning: which worker runs which task, with what; pure, no I/O."""
