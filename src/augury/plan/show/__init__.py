"""What a reader sees of a plan: a table, reasons, pictures; pure, as all of planning."""
