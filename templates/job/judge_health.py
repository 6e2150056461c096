"""What a check of nodes has found, from their reports and the all-reduces between them: values in, values out.

A finding is {"code", "level", "node", "message"}; an error means that the node should not be used. What is wrong with
more than half of the nodes is not a matter of nodes: it points at the image, the software or the network, and replacing
nodes would help nobody. Standard library only, Python 3.6.
"""

SLOW = 0.8  # of the median of all, or of a published figure
CLOCK_S = 5.0  # between nodes, as far as srun's start tells
NTP_S = 1.0  # from the time server, as chrony tells
FULL, NEARLY_FULL = 0.02, 0.1  # of a file system that is free
LEAST_FREE = 2 << 30  # bytes


def judge(nodes, reports, links, expect):
    """(findings, the nodes that fail, whether it is no matter of single nodes)."""
    found = []
    for node in nodes:
        told = reports.get(node)
        if told is None:
            found.append(
                finding("node-silent", node, "gave no report: it hangs, or Slurm could not start a step on it")
            )
            continue
        found += of_devices(node, told, expect)
        found += of_machine(node, told)
    found += of_collectives(reports, expect)
    found += of_clocks(reports)
    found += of_versions(reports, expect)
    found += of_links(links, expect)
    failed = sorted({one["node"] for one in found if one["level"] == "error" and one["node"]}, key=nodes.index)
    return found, failed, len(failed) > 1 and 2 * len(failed) > len(nodes)


def finding(code, node, message, level="error"):
    """One finding; `node` '' when it is about no single one."""
    return {"code": code, "level": level, "node": node, "message": message}


def of_devices(node, told, expect):
    """Neuron devices, EFA devices, memory errors that cannot be corrected."""
    devices, efa = told["devices"], told["efa"]
    if devices["error"]:
        yield finding("node-devices", node, "neuron-ls: " + devices["error"])
    elif devices["count"] != expect["devices"]:
        words = "neuron-ls sees {} Neuron devices of {}".format(devices["count"], expect["devices"])
        yield finding("node-devices", node, words)
    elif devices["busy"]:
        pids = ", ".join(map(str, devices["busy"]))
        yield finding("node-busy", node, f"processes {pids} hold NeuronCores that this job was given", "warning")
    if told["errors"]:
        words = ", ".join(f"{name} {count}" for name, count in sorted(told["errors"].items()))
        yield finding("node-memory-errors", node, f"the driver counts memory errors that cannot be corrected: {words}")
    if expect["efa"] and efa["count"] != expect["efa"]:
        words = "libfabric sees {} EFA devices of {}".format(efa["count"], expect["efa"])
        yield finding("node-efa", node, words + (": " + efa["error"] if efa["error"] and not efa["count"] else ""))


def of_machine(node, told):
    """Disks, and the clock by its time server."""
    for disk in told["disks"]:
        if disk["error"]:
            yield finding("node-disk", node, "{path}: {error}".format(**disk))
            continue
        words = "{} has {:.1f} GiB free of {:.0f}".format(disk["path"], disk["free"] / 2**30, disk["bytes"] / 2**30)
        share = disk["free"] / disk["bytes"] if disk["bytes"] else 1.0
        if share < FULL and disk["free"] < LEAST_FREE:
            yield finding("node-disk", node, words)
        elif share < NEARLY_FULL:
            yield finding("node-disk-low", node, words, "warning")
    if told["clock_s"] is not None and abs(told["clock_s"]) > NTP_S:
        yield finding("node-clock", node, "its clock is {:+.1f} s from its time server".format(told["clock_s"]))


def of_clocks(reports):
    """Clocks against each other: all nodes were started at one moment, so that they differ as their clocks do, but for
    the second or so that srun takes."""
    delays = {node: told["delay_s"] for node, told in reports.items()}
    middle = median(delays.values())
    for node, delay in delays.items():
        if len(delays) > 1 and abs(delay - middle) > CLOCK_S:
            yield finding("node-clock", node, f"its clock is about {delay - middle:+.0f} s from those of the others")


def of_versions(reports, expect):
    """Kernel, driver, runtime, collectives and tools must be the same everywhere: the majority is right, and where
    there is none what the SDK's release has."""
    names = {name for told in reports.values() for name in told["versions"]}
    for name in sorted(names):
        seen = {node: told["versions"].get(name, "missing") for node, told in reports.items()}
        kinds = sorted(set(seen.values()), key=list(seen.values()).count)
        if len(kinds) < 2:
            continue
        counts = sorted(list(seen.values()).count(kind) for kind in kinds)
        usual = kinds[-1] if counts[-1] > counts[-2] else expect["versions"].get(name, "")
        if usual not in kinds:
            words = ", ".join(f"{node} {version}" for node, version in sorted(seen.items()))
            yield finding("node-software", "", f"the nodes have different {name}s: {words}", "warning")
            continue
        for node, version in seen.items():
            if version != usual:
                yield finding("node-software", node, f"its {name} is {version}, and {usual} on the others")


# ------------------------------------------------------------------------------------------------ collectives


def of_collectives(reports, expect):
    """The all-reduce inside each node, against the median of the nodes: none is published for so many workers."""
    rates = [told["collective"]["busbw"] for told in reports.values() if told.get("collective")]
    middle = median([rate for rate in rates if rate])
    for node, told in reports.items():
        own = told.get("collective")
        if own is None:
            continue
        if own["error"] == "hung":
            words = "the all-reduce among its workers did not end in {:.0f} s".format(own["seconds"])
            yield finding("node-collective-hung", node, words)
        elif own["busbw"] is None:
            yield finding("node-collective", node, "nccom-test: " + own["error"])
        elif own["busbw"] < SLOW * middle:
            words = "the all-reduce among its workers reaches {:.1f} GB/s, and {:.1f} is the median of the nodes"
            yield finding("node-collective-slow", node, words.format(own["busbw"], middle))


def of_links(links, expect):
    """The all-reduces between pairs of nodes, against the fastest pair: of few pairs most may have the one bad node.

    Each node is in two pairs: one whose pairs are all bad, while others are good, is to blame. Where that cannot be
    told nobody is.
    """
    best = max([link["busbw"] for link in links if link["busbw"]], default=0.0)
    bad = [link for link in links if link["error"] or link["busbw"] < SLOW * best]
    good = [link for link in links if link not in bad]
    blamed = {}
    for node in sorted({node for link in links for node in link["nodes"]}):
        own = [link for link in links if node in link["nodes"]]
        if good and len(own) > 1 and not any(link in good for link in own):
            blamed[node] = own
    for node, own in blamed.items():
        told = ["with {} {}".format(*(other for other in link["nodes"] if other != node), became(link)) for link in own]
        code = "node-link-hung" if any(link["error"] == "hung" for link in own) else "node-link"
        yield finding(
            code, node, "its all-reduce {}; the fastest pair reaches {:.1f} GB/s".format(", ".join(told), best)
        )
    if len(bad) > 1 and not good:
        words = "no all-reduce between two nodes ended well; that of {} and {} ".format(*bad[0]["nodes"])
        yield finding("links-all-bad", "", words + became(bad[0]), "warning")
        return
    for link in bad:
        if not any(node in blamed for node in link["nodes"]):
            words = "the all-reduce of {} and {} ".format(*link["nodes"]) + became(link)
            yield finding("link-doubtful", "", words + "; which of the two is to blame cannot be told", "warning")
    reference = expect.get("reference")
    if good and reference and best < SLOW * reference["busbw"]:
        words = "the fastest all-reduce between two nodes reaches {:.1f} GB/s, and {busbw} is published: {basis}"
        yield finding("links-below-published", "", words.format(best, **reference), "warning")


def became(link):
    """What became of the all-reduce of two nodes."""
    if link["error"] == "hung":
        return "did not end in {:.0f} s".format(link["seconds"])
    return "failed: " + link["error"] if link["error"] else "reaches {:.1f} GB/s".format(link["busbw"])


def rounds(nodes):
    """Pairs of neighbours in a ring, in rounds in which no node is twice: so that each is measured with two others."""
    count = len(nodes)
    if count < 2:
        return []
    pairs = [(nodes[i], nodes[(i + 1) % count]) for i in range(count if count > 2 else 1)]
    made = []
    for pair in pairs:
        free = [one for one in made if not any(node in used for used in one for node in pair)]
        if free:
            free[0].append(pair)
        else:
            made.append([pair])
    return made


def median(values):
    """The middle one, or the mean of the two in the middle; 0 of none."""
    row = sorted(values)
    if not row:
        return 0.0
    return (row[len(row) // 2] + row[(len(row) - 1) // 2]) / 2
