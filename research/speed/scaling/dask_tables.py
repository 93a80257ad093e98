"""Tables of fits over Dask workers, and of a fit on a cluster that follows from them."""

from __future__ import annotations

from research.common.tables import NOTHING, mebibytes, table

from .plan import FETCH_RATE, WORKERS_A_MACHINE, Plan, plan
from .results import Results

DASK_NOTES = """`LpFusion(p=4/3).fit` on a `LocalCluster` of processes with one thread each and a
memory limit of 2 GiB; scheduler and driver share the same {cores} cores, so four workers cannot be
twice as fast as two. *Reductions*: results that came back to the driver, with their size in all.
*Worker*: resident memory at its highest, the largest of all workers. *Gap in memory*: of the
weights on the same rows in memory, against the bound of a fit in memory."""


def dask_section(results: Results) -> str:
    found = results.select("dask-fit")
    cores = {results.environments[r["environment"]]["cores"] for r in found}
    notes = DASK_NOTES.format(cores=" or ".join(map(str, sorted(cores))) or "few")
    return notes + "\n\n" + dask_table(results) + "\n" + speed_table(results)


def dask_table(results: Results) -> str:
    order = sorted(
        results.select("dask-fit"), key=lambda r: (r["form"], r["setting"], r["n"], r["workers"])
    )
    rows = [
        [
            r["form"],
            r["setting"],
            f"{r['n']:,} × {r['R']}",
            str(r["workers"]),
            f"{r['seconds']:.2f}",
            f"{r['passes']:.1f}",
            f"{r['relative_gap']:.1e}",
            f"{r['reductions']:.0f}, {r['bytes_back'] / 2**20:.1f} MiB",
            mebibytes(max(r["worker_bytes"])),
            f"{r['gap_in_memory']:.1e}" if "gap_in_memory" in r else "–",
        ]
        for r in order
    ]
    head = ["form", "setting", "scores", "workers", "s", "passes", "gap", "reductions", "worker"]
    return table([*head, "gap in memory"], rows)


def speed_table(results: Results) -> str:
    """Strong scaling: the same rows by more workers. Weak: as many rows for each."""
    rows = []
    for one in results.select("dask-fit", workers=1):
        same = {name: one[name] for name in ("form", "setting")}
        for r in sorted(results.select("dask-fit", **same), key=lambda r: r["workers"]):
            if r["workers"] > 1 and r["n"] in (one["n"], one["n"] * r["workers"]):
                kind = "strong" if r["n"] == one["n"] else "weak"
                ideal = r["workers"] if kind == "strong" else 1
                ratio = one["seconds"] / r["seconds"]
                named = [kind, r["form"], r["setting"], f"{one['n']:,}", str(r["workers"])]
                rows.append([*named, f"{ratio:.2f} (ideal {ideal})"])
    head = ["scaling", "form", "setting", "rows of one worker", "workers"]
    return table([*head, "time of one worker / time"], sorted(rows))


def plan_section(results: Results) -> str:
    model = results.dask_model()
    if model is None:
        return NOTHING
    text = (
        f"A fit takes {model.fixed:.1f} s plus the passes; in a pass a worker with one core reads, "
        f"decodes and reduces {model.rate / 1e6:.0f} MB of Parquet a second, and the scheduler "
        f"spends {1e3 * model.task_seconds:.2f} ms on a task (measured here, R = {model.R}; least "
        f"squares over the fits whose workers had a core each). At most {model.passes:.1f} passes "
        f"were needed, at p = 4/3. Between passes the driver fetches the undecided rows, "
        f"4·n^(2/3) at most, and solves for them, by the law of growth above (its upper limit, "
        f"negatives, one thread). Assumed: {WORKERS_A_MACHINE} workers a machine, which gets "
        f"{FETCH_RATE / 1e9:.2f} GB/s from storage (10 Gbit/s), blocks of 128 MiB.\n\n"
    )
    return text + plan_table(results)


def plan_table(results: Results) -> str:
    model = results.dask_model()
    if model is None:
        return NOTHING
    rows = []
    for workers in (16, 64):
        for name, size in (("float64", 8), ("float32", 4)):
            rows.append([name, *_plan_row(plan(model, 1e9, 100, size, workers))])
    head = ["1e9 × 100", "workers", "bytes a pass", "of them each", "s a pass", "it waits for"]
    return table([*head, "passes", "to the driver a pass, at most", "in all"], rows)


def _plan_row(found: Plan) -> list[str]:
    return [
        str(found.workers),
        f"{found.pass_bytes / 1e9:,.0f} GB",
        f"{found.worker_bytes / 1e9:.1f} GB",
        f"{found.pass_seconds:.0f}",
        found.limit,
        str(found.passes),
        f"{found.back_bytes / 1e9:.1f} GB",
        f"{found.seconds / 60:.0f} min" if found.seconds >= 120 else f"{found.seconds:.0f} s",
    ]
