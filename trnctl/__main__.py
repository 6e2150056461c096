"""The console script: `trnctl` and `python -m trnctl`."""

from trnctl.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
