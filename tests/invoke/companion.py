"""A module that starts a process when it is imported, as some do that talk to another language's runtime."""

import subprocess

process = subprocess.Popen(["sleep", "1000"])
