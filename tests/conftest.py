"""Settings every test relies on."""

import os

# Read when numba is first imported: lets tests ask for 4 threads on a smaller machine.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")
