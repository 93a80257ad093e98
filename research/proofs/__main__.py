"""Judge certificates of fuzzed problems in exact arithmetic; exit 1 if one is false or fails."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from lpfuse._files import versions
from research.common.store import read_document, read_rows, write_document, write_whole
from research.proofs.families import FAMILIES, make
from research.proofs.fuzz import BLOCK, ROWS, outcome, run
from research.proofs.tables import families_of, page_of, refusals, table, told

PUBLISHED = Path("research/results/proofs/summary.json")
PAGE = Path("docs/benchmarks/certificates.md")


def main() -> int:
    parser = ArgumentParser("python -m research.proofs", description=__doc__)
    parser.add_argument("--problems", type=int, default=200_000, help="in all families together")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; -1: all cores")
    parser.add_argument("--out", type=Path, default=ROWS, help="rows, one a block")
    parser.add_argument("--show", action="store_true", help="tables of stored results only")
    parser.add_argument("--publish", action="store_true", help="store the sums, write the page")
    parser.add_argument("--seed", type=int, help="one problem of --family, told in full")
    options = parser.parse_args()
    families = options.family or list(FAMILIES)
    if options.seed is not None:
        print(problem := make(families[0], options.seed))
        print(outcome(problem))
        return 0
    blocks = -(-options.problems // (BLOCK * len(families)))
    rows = (
        read_rows(options.out) if options.show else run(blocks, options.out, options.jobs, families)
    )
    if options.publish:
        # Of families that were not run the sums stay as they are stored.
        known = read_document(PUBLISHED)["families"] | families_of(rows)
        sums = {family: known[family] for family in FAMILIES if family in known}
        published = {"versions": versions(), "families": sums}
        write_document(PUBLISHED, published)
        write_whole(PAGE, page_of(published))
    print(table(rows), refusals(rows), told(rows), sep="\n\n")
    return int(any(row["told"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
