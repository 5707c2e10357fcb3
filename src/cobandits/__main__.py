"""``python -m cobandits`` is the command ``cobandits``."""

from cobandits.cli import main

if __name__ == "__main__":
    main()
