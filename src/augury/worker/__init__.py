"""Workers: a state machine without I/O, the runner that acts for it, and the entry point of an invocation."""
