"""Speed, measured: pocketbert beside `transformers` on the same machine, data and threads. Not part of the package."""
