"""Starting workers: the gateway protocol and one module or folder per platform."""
