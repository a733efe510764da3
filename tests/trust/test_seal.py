"""Signing and checking: what was signed passes, and nothing else does."""

import pickle
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury import DefinitionError, UntrustedData, serde
from augury.trust import Keyring, Seal, process_keyring, refused
from augury.trust.seal import TAG_BYTES

OLD, NEW, OTHER = "an old key, long enough", "a new key, long enough", "a key of somebody else"
RING = Keyring([NEW])
SEAL = RING.seal("run 1")
SIZES = [0, 1, 100, 2047, 2048, 100_000]


def passes(seal: Seal, what: str, data: bytes) -> bool:
    try:
        seal.check(what, data)
    except UntrustedData:
        return False
    return True


@pytest.mark.parametrize("size", SIZES)
def test_what_was_signed_passes(size: int) -> None:
    SEAL.check("o17", SEAL.sign("o17", bytes(size)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "tamper",
    [
        lambda data: data[:-1],
        lambda data: data[1:],
        lambda data: data[:-TAG_BYTES],
        lambda data: data + b"x",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:-1] + bytes([data[-1] ^ 128]),
        lambda data: b"",
        lambda data: bytes(len(data)),
    ],
)
def test_what_was_changed_or_cut_is_refused(size: int, tamper: Callable[[bytes], bytes]) -> None:
    assert not passes(SEAL, "o17", tamper(SEAL.sign("o17", bytes(size))))


@pytest.mark.parametrize("size", SIZES)
def test_what_belongs_elsewhere_is_refused(size: int) -> None:
    signed = SEAL.sign("o17", bytes(size))
    assert not passes(SEAL, "o18", signed)
    assert not passes(SEAL, "c17", signed)
    assert not passes(RING.seal("run 2"), "o17", signed)
    assert not passes(Keyring([OTHER]).seal("run 1"), "o17", signed)


def test_bytes_are_not_taken_for_others_that_have_them_as_digest() -> None:
    long = bytes(5000)
    signed = SEAL.sign("o17", long)
    digest = sha256(long).digest()
    assert not passes(SEAL, "o17", digest + signed[-TAG_BYTES:])


def test_keys_are_changed_in_three_steps_without_a_gap() -> None:
    steps = [[OLD], [OLD, NEW], [NEW, OLD], [NEW]]
    seals = [Keyring(keys).seal("run") for keys in steps]
    for before, after in pairwise(seals):
        assert passes(after, "o1", before.sign("o1", b"value"))
        assert passes(before, "o1", after.sign("o1", b"value"))
    assert not passes(seals[-1], "o1", seals[0].sign("o1", b"value"))


@given(st.binary(max_size=5000), st.integers(0, 10_000), st.integers(1, 255))
def test_any_changed_byte_is_noticed(data: bytes, place: int, change: int) -> None:
    signed = bytearray(SEAL.sign("o1", data))
    signed[place % len(signed)] ^= change
    assert not passes(SEAL, "o1", bytes(signed))


# Objects


def test_a_signed_object_loads_as_before() -> None:
    value = {"rows": bytes(range(256)) * 1000, "name": "x"}
    signed = SEAL.sign_object("o1", serde.dumps(value))
    SEAL.check_object("o1", signed.join())
    assert serde.loads(signed.join()) == value
    assert signed.size_bytes == len(signed.join())


@pytest.mark.parametrize("skips_buffers", [False, True])
def test_parts_of_an_object_are_signed_as_their_whole(skips_buffers: bool) -> None:
    seal = RING.seal("run 1", skips_buffers=skips_buffers)
    blob = serde.dumps([np.zeros(20_000), np.zeros(3001, np.uint8)])
    assert len(blob.parts) > 3
    joined = serde.Blob([blob.join()])
    assert seal.sign_object("o1", joined).join() == seal.sign_object("o1", blob).join()
    seal.check_object("o1", seal.sign_object("o1", blob).join())


def test_buffers_are_covered_unless_memory_is_shared() -> None:
    blob = serde.dumps([np.zeros(20_000)])
    changed = bytearray(SEAL.sign_object("o1", blob).join())
    changed[-TAG_BYTES - 1] ^= 1
    with pytest.raises(UntrustedData):
        SEAL.check_object("o1", changed)
    sharing = RING.seal("run 1", skips_buffers=True)
    changed = bytearray(sharing.sign_object("o1", blob).join())
    changed[-TAG_BYTES - 1] ^= 1
    sharing.check_object("o1", changed)


@pytest.mark.parametrize("place", [0, 4, 8, 12, 20, 30, 60])
def test_header_lengths_and_pickle_are_always_covered(place: int) -> None:
    sharing = RING.seal("run 1", skips_buffers=True)
    changed = bytearray(sharing.sign_object("o1", serde.dumps([np.zeros(20_000)])).join())
    changed[place] ^= 1
    with pytest.raises(UntrustedData):
        sharing.check_object("o1", changed)


@pytest.mark.parametrize("size", range(0, TAG_BYTES + 30, 3))
def test_an_object_that_is_too_short_is_refused(size: int) -> None:
    for seal in (SEAL, RING.seal("run 1", skips_buffers=True)):
        with pytest.raises(UntrustedData):
            seal.check_object("o1", bytes(size))


# What may be known of keys


def test_refusals_are_counted_and_say_what_to_do() -> None:
    before = refused()
    with pytest.raises(UntrustedData, match=r"o17 of run 1 is not authentic.*AUGURY_KEY"):
        SEAL.check("o17", b"x" * 40)
    assert refused() == before + 1


def test_keys_are_not_shown() -> None:
    assert repr(Keyring([NEW, OLD])) == "<Keyring of 2 keys>"
    assert NEW not in repr(SEAL)


@pytest.mark.parametrize("secret", [RING, SEAL])
def test_keys_do_not_travel(secret: object) -> None:
    with pytest.raises(DefinitionError, match="keys are not given to tasks"):
        pickle.dumps(secret)


@pytest.mark.parametrize("keys", [[], [""], ["short"], [NEW, "short"]])
def test_a_key_that_could_be_guessed_is_refused_and_not_shown(keys: list[str]) -> None:
    with pytest.raises(DefinitionError, match="openssl rand") as caught:
        Keyring(keys)
    assert "short " not in str(caught.value).replace("shorter", "")


def test_a_process_has_one_keyring_of_its_own() -> None:
    assert process_keyring() is process_keyring()
    assert not passes(SEAL, "o1", process_keyring().seal("run 1").sign("o1", b"x"))


# Small outputs, which are many


@pytest.mark.parametrize("size", SIZES)
def test_small_outputs_are_signed_as_everything_is(size: int) -> None:
    assert SEAL.sign_output(17, bytes(size)) == SEAL.sign("o17", bytes(size))


def test_outputs_are_checked_together() -> None:
    outputs = {task: SEAL.sign_output(task, bytes(size)) for task, size in enumerate(SIZES)}
    assert SEAL.check_outputs(outputs.items()) is None
    for task, data in outputs.items():
        for foreign in (
            data[:-1],
            data + b"x",
            b"",
            RING.seal("run 2").sign_output(task, b"x"),
            outputs[(task + 1) % 6],
        ):
            assert SEAL.check_outputs({**outputs, task: foreign}.items()) == task


def test_outputs_of_older_keys_are_taken() -> None:
    old, both = Keyring([OLD]).seal("run"), Keyring([NEW, OLD]).seal("run")
    assert both.check_outputs((task, old.sign_output(task, bytes(size))) for task, size in enumerate(SIZES)) is None


@given(st.integers(-(10**20), 10**20), st.binary(max_size=40))
def test_outputs_of_any_task_and_bytes_are_told(task: int, data: bytes) -> None:
    assert SEAL.check_outputs([(task, data)]) == task
