"""Documents are part of the product: their code runs, their links lead somewhere, their outputs are real."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SKIPPED_FOLDERS = frozenset({"__pycache__", "dist", "node_modules", "out"})
TEXT_SUFFIXES = frozenset({".py", ".md", ".toml", ".txt", ".lua", ".json", ".yaml", ".yml", ".html", ".js", ".css", ""})


class Block(NamedTuple):
    """A piece of Python in a document: where it stands, its code, and the output that the document promises."""

    document: str
    line: int
    code: str
    output: str | None


def python_blocks(text: str, document: str = "") -> Iterator[Block]:
    """The Python blocks of a document that are to be run, each as a program of its own.

    A block marked `text` right after one of Python is its output. A Python block marked `python norun`
    is only shown: it needs something that a reader has to provide.
    """
    fence = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
    blocks = list(fence.finditer(text))
    for index, block in enumerate(blocks):
        if block["info"].strip() != "python":
            continue
        follower = blocks[index + 1] if index + 1 < len(blocks) else None
        shows_output = follower is not None and follower["info"].strip() == "text"
        line = text.count("\n", 0, block.start()) + 1
        yield Block(document, line, block["body"], follower["body"] if follower and shows_output else None)


def run_as_user(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as a reader would: saved to a file, in a folder of its own."""
    script = folder / "example.py"
    script.write_text(code)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AUGURY_")}
    environ["AUGURY_STATE_DIR"] = str(folder / "state")
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


BLOCKS = [block for path in DOCUMENTS for block in python_blocks(path.read_text(), str(path.relative_to(ROOT)))]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.document}:{block.line}")
def test_code_in_documents_runs_and_prints_what_they_say(block: Block, tmp_path: Path) -> None:
    ran = run_as_user(block.code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    if block.output is not None:
        assert ran.stdout == block.output


def test_the_readme_shows_a_program_with_its_output() -> None:
    assert any(block.document == "README.md" and block.output for block in BLOCKS)


def test_a_block_is_found_with_its_output() -> None:
    text = "a\n```python\nprint(1)\n```\nIt prints:\n```text\n1\n```\n```python norun\nx\n```\n```python\npass\n```\n"
    assert list(python_blocks(text)) == [Block("", 2, "print(1)\n", "1\n"), Block("", 12, "pass\n", None)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


FORBIDDEN = {
    "a path of someone's machine": re.compile(r"/(?:home|Users|root)/\w|/work/(?:main|shared)"),
    "a package registry": re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.|ghcr\.io|docker\.io"),
    "unfinished work": re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b"),
}


def text_files() -> Iterator[Path]:
    """Every file of the project, without what tools made."""
    folders = [ROOT]
    while folders:
        for entry in sorted(folders.pop().iterdir()):
            if entry.is_dir():
                if entry.name == ".ci" or not (entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS):
                    folders.append(entry)
            elif entry.suffix in TEXT_SUFFIXES and entry.name != ".git":  # a file, in a linked working tree
                yield entry


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in text_files()
        for match in FORBIDDEN[what].finditer(read(path))
    ]
    assert not found


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
