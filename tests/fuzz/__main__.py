"""Run one check under libFuzzer (atheris), which keeps what reaches new code and goes on from there."""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

WANTED = "atheris is needed, which is no dependency of the tests: `.venv/bin/python -m pip install atheris`"


def main() -> None:
    """Fuzz for some seconds; ends with the input at hand on the first failure (libFuzzer writes it to a file)."""
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of what reads bytes of others.")
    parser.add_argument("target", choices=["splice", "sse"], help="what reads: requests, or event streams")
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--corpus", type=Path, help="a folder to begin with and to keep what was found in")
    parser.add_argument("--longest", type=int, default=600, help="bytes of an input at the most (600)")
    options = parser.parse_args()
    try:
        import atheris  # type: ignore[import-untyped] # noqa: PLC0415 - only who fuzzes has it
    except ImportError:
        sys.exit(WANTED)
    with atheris.instrument_imports(include=["memproxy.wire", "memproxy.core.block"]):
        target = importlib.import_module(f"tests.fuzz.{options.target}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.corpus or Path(temporary) / "corpus"
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.SEEDS):
            (folder / f"seed-{number}").write_bytes(seed)
        dictionary = Path(temporary) / "words"
        dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in target.WORDS), encoding="ascii")
        limits = [f"-max_total_time={options.seconds}", f"-max_len={options.longest}", f"-dict={dictionary}"]
        atheris.Setup(
            [
                sys.argv[0],
                *limits,
                "-timeout=20",
                f"-artifact_prefix={tempfile.gettempdir()}/",
                "-print_final_stats=1",
                str(folder),
            ],
            target.check,
        )
        atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
