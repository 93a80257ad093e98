"""``python -m lpfuse_cli`` is ``lpfuse``."""

from lpfuse_cli import main

if __name__ == "__main__":
    main()
