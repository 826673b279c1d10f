"""A process of its own that makes producers of one library and prints their ids, a line each.

Real applications are processes, too; and what a library leaves to its garbage stays here.
Usage: python -m tests.clients.ask_for_ids LIBRARY COUNT THREADS BOOTSTRAP [BOOTSTRAP ...]
"""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

from fencepost.bench.demo_clients import CLIENTS


def main(library: str, count: str, threads: str, *bootstraps: str) -> None:
    """Producer n starts from bootstrap n, round and round."""
    with ThreadPoolExecutor(max_workers=int(threads)) as pool:
        turns = itertools.islice(itertools.cycle(bootstraps), int(count))
        for producer_id in pool.map(CLIENTS[library], turns):
            sys.stdout.write(f"{producer_id}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
