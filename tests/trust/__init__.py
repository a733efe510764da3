"""Tests of who is trusted, and with what."""
