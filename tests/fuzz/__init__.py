"""Bytes from outside are read or refused in words, whatever they are. `AUGURY_FUZZ=50` tries fifty times as many."""
