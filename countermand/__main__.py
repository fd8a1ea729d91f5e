"""``python -m countermand``."""

from countermand.cli.main import main

main()
