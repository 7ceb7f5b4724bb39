"""What has a name in a folder and is no file."""

import os
import socket
import stat
from pathlib import Path


def no_files(folder: Path) -> dict[str, Path]:
    """A pipe, a socket and, where we may make one, a device, in a folder of the test's own; by what they are."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "socket"))
    nodes = {"pipe": folder / "pipe", "socket": folder / "socket"}
    try:
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
    except PermissionError:
        return nodes
    return {**nodes, "device": folder / "device"}
