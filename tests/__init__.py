"""The tests, a folder for each part."""
