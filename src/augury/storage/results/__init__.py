"""Outputs that are kept for later runs: by what they were computed from, in a folder, in Redis or in memory."""
