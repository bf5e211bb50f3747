"""The first process of every container: a program of two system calls.

    bwrap ─► pause (pid 1, ready byte on stdout) ◄─ every other process joins its namespaces

A container's namespaces must live before and after its own process, and somebody must take in
orphans. An image may contain no program at all, so pid 1 is brought along: a static executable
that ignores SIGCHLD (the kernel then buries orphans itself), writes one byte to say that it is
there, and sleeps. It is run from a sealed memfd, so nobody can change it.
"""

from __future__ import annotations

import struct

_LOAD_ADDRESS = 0x400000
_HEADERS = 64 + 56
_MACHINES = {"x86_64": 62, "aarch64": 183}

_CODE = {
    "x86_64": bytes.fromhex(
        "31c0"  # xor eax, eax
        "505050"  # push rax (three times)   no flags, no restorer, no mask
        "ffc0"  # inc eax
        "50"  # push rax                     SIG_IGN
        "4889e6"  # mov rsi, rsp
        "bf11000000"  # mov edi, 17          SIGCHLD
        "31d2"  # xor edx, edx
        "41ba08000000"  # mov r10d, 8
        "b80d000000"  # mov eax, 13          rt_sigaction
        "0f05"  # syscall
        "bf01000000"  # mov edi, 1           stdout
        "4889e6"  # mov rsi, rsp             the byte 1
        "ba01000000"  # mov edx, 1
        "b801000000"  # mov eax, 1           write
        "0f05"  # syscall
        "b822000000"  # mov eax, 34          pause
        "0f05"  # syscall
        "ebf7"  # jmp back to pause
    ),
    "aarch64": b"".join(
        word.to_bytes(4, "little")
        for word in (
            0xD10083FF,  # sub sp, sp, #32
            0xD2800029,  # mov x9, #1          SIG_IGN
            0xA9007FE9,  # stp x9, xzr, [sp]
            0xA9017FFF,  # stp xzr, xzr, [sp, #16]
            0xD2800220,  # mov x0, #17         SIGCHLD
            0x910003E1,  # mov x1, sp
            0xD2800002,  # mov x2, #0
            0xD2800103,  # mov x3, #8
            0xD28010C8,  # mov x8, #134        rt_sigaction
            0xD4000001,  # svc #0
            0xD2800020,  # mov x0, #1          stdout
            0x910003E1,  # mov x1, sp          the byte 1
            0xD2800022,  # mov x2, #1
            0xD2800808,  # mov x8, #64         write
            0xD4000001,  # svc #0
            0xD2800000,  # mov x0, #0
            0xD2800001,  # mov x1, #0
            0xD2800002,  # mov x2, #0
            0xD2800003,  # mov x3, #0
            0xD2800928,  # mov x8, #73         ppoll on nothing
            0xD4000001,  # svc #0
            0x17FFFFFA,  # b back to the first argument of ppoll
        )
    ),
}


def program(machine: str) -> bytes:
    """Return the executable for a machine as `uname` names it; KeyError if there is none."""
    code = _CODE[machine]
    size = _HEADERS + len(code)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",  # 64 bits, little endian
        2,  # executable
        _MACHINES[machine],
        1,
        _LOAD_ADDRESS + _HEADERS,  # entry
        64,  # program headers follow at once
        0,
        0,
        64,
        56,
        1,
        0,
        0,
        0,
    )
    # One segment, readable and executable.
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    return header + segment + code
