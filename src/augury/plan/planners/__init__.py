"""The planners that come with Augury, one module each."""
