"""Pure building blocks: values and functions without I/O, clocks or async. Imported by everyone, imports nobody."""
