"""The identity of a cubin's code."""

from __future__ import annotations

import hashlib
import io

from tirx_bench.model import UsageError

CODE_SECTIONS = (".text", ".nv.info", ".nv.constant")


def code_hash(cubin: bytes) -> str:
    """SHA-256 over the sections that make up the code. Raises `UsageError` if the bytes are not a cubin.

    Not over the file: with line information a build's folder and the source's time stamp are in .debug_line, so the same
    source built in two folders gives two files with one code.
    """
    from elftools.elf.elffile import ELFFile

    digest = hashlib.sha256()
    try:
        elf = ELFFile(io.BytesIO(cubin))
        sections = [(s.name, s.data()) for s in elf.iter_sections() if s.name.startswith(CODE_SECTIONS)]
    except Exception as error:  # whatever the parser meets in bytes that may be anything
        raise UsageError(f"not a cubin: {error or 'it is cut short'}") from error
    # The program headers, which the loader needs and the sections do not, are the last thing in the file.
    if len(cubin) < elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"]:
        raise UsageError("not a cubin: it is cut short")
    if not any(name.startswith(".text") for name, _ in sections):
        raise UsageError("not a cubin: it holds no code")
    for name, data in sorted(sections):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
