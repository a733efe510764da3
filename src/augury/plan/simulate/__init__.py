"""The simulator: how a run of a plan is expected to go."""
