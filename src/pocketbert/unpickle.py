"""The one place that reads a pickle: `pytorch_model.bin` → safetensors, in a process of its own.

`weights_only=True` makes torch build tensors and plain containers and refuse everything else, so a file that wants
to call something gets an error instead of a call. A separate process keeps even a fault of that reader away from
the person's session. Run by `models.import_model`; nothing else in the package unpickles.
"""

import subprocess
import sys
from pathlib import Path

from pocketbert.errors import UserError


def convert(source: Path, target: Path) -> None:
    """Convert a .bin to a .safetensors in another process."""
    command = [sys.executable, "-P", "-m", "pocketbert.unpickle", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"{source}: refused: {last}")


def _convert_here(source: Path, target: Path) -> None:
    import torch
    from safetensors.torch import save_file

    try:
        content = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:
        if type(error).__name__ == "UnpicklingError":
            sys.exit("it holds more than tensors (it would run code when read), or it is no pickle of weights")
        sys.exit(f"not a readable file of weights: {type(error).__name__}")
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
    ):
        sys.exit("it is no plain table of names and tensors")
    # Tied weights share memory in a pickle; safetensors wants each on its own.
    save_file({name: tensor.contiguous().clone() for name, tensor in content.items()}, target, {"format": "pt"})


if __name__ == "__main__":
    _convert_here(Path(sys.argv[1]), Path(sys.argv[2]))
