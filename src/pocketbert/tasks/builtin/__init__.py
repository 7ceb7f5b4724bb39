"""One file per built-in task. A new file with a `@builtin` function in it is found, listed and tested."""
