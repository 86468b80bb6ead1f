"""``python -m memproxy`` is the console script."""

from memproxy.commands import main

if __name__ == "__main__":
    main()
