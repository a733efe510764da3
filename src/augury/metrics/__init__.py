"""What is measured of runs, and where it is kept."""
