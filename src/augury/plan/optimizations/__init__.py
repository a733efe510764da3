"""The optimizations that come with Augury, one module each: their planning halves."""
