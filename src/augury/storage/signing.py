"""Signing what the client uploads; outputs and constants are signed one by one, see `augury.trust.seal`."""

import msgspec

from augury.errors import UntrustedData
from augury.storage.protocols import RunSpec
from augury.trust.seal import TAG_BYTES, Seal

_WHAT = "spec"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RunSpec).decode


def sign_spec(spec: RunSpec, seal: Seal) -> RunSpec:
    """The same, signed as a whole: code, plan, where code is imported from, and all else that it says."""
    # As it is read: there a whole number may have become another one, such as 1 CPU, which is then 1.0.
    spec = _decode(_unsigned(spec))
    signed = seal.sign(_WHAT, _unsigned(spec))
    return msgspec.structs.replace(spec, tag=signed[-TAG_BYTES:])


def check_spec(spec: RunSpec, seal: Seal) -> None:
    """Make sure that `sign_spec` made it.

    Raises:
        UntrustedData: It did not; nothing in it must be unpickled.
    """
    try:
        seal.check(_WHAT, _unsigned(spec) + spec.tag)
    except UntrustedData as error:
        raise UntrustedData(f"the code and the plan of the run: {error}") from None


def _unsigned(spec: RunSpec) -> bytes:
    return _encode(msgspec.structs.replace(spec, tag=b""))
