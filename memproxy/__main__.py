"""``python -m memproxy`` is the console script."""

from memproxy.cli import main

main()
