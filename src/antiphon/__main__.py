"""`python -m antiphon`."""

import sys

from antiphon.cli.main import main

sys.exit(main())
