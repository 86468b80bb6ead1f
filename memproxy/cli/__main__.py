"""``python -m memproxy.cli`` is the command ``memproxy``."""

from memproxy.cli import main

if __name__ == "__main__":
    main()
