"""`python -m musicgen`: the same as the `musicgen` command."""

import sys

from musicgen.cli.main import main

sys.exit(main())
