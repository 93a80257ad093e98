"""``python -m lpfuse.cli`` is ``lpfuse``."""

from lpfuse.cli import main

if __name__ == "__main__":
    main()
