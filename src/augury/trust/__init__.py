"""Who may make workers and clients unpickle something: those who hold a key of the deployment.

`seal` signs and checks bytes, `sources` finds the keys, `folders` keeps private what is. SECURITY.md states the model.
"""

from augury.trust.seal import Keyring, Seal, process_keyring, refused

__all__ = ["Keyring", "Seal", "process_keyring", "refused"]
