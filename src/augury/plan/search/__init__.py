"""How a planner looks for good plans: coarser graphs, quick schedules, small changes."""
