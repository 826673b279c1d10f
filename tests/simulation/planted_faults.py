"""What ``python -m tests.simulation.planted`` plants: one line of the product each, and where it must show.

They are faults of what the storms of mixed.py are for: what is believed that a disk gives back, what is said
before it is on the disk, what goes on after a disk has failed, who is compared with whom.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Planted:
    """``old`` is once in ``file``; seeds of ``kinds`` (mixed.KINDS) are played."""

    name: str
    breaks: str  # what is no longer true
    file: str
    old: str
    new: str
    kinds: tuple[str, ...]


STORE: Final = ("flips", "tears", "bad node")
CHANGED: Final = ("changed rows",)
POWER: Final = ("lost names",)
CALLS: Final = ("bad calls", "bad node")

PLANTED: Final = (
    Planted(
        "entries-believed",
        "a journal entry with a wrong checksum is a lost store",
        "quorum/journal.py",
        " or known not in (None, summed):\n",
        ":\n",
        STORE,
    ),
    Planted(
        "a-shorter-journal-believed",
        "a journal that lost its last entries is a lost store",
        "quorum/journal.py",
        'txn.stat(sums)["entries"] != summed_entries',
        "False",
        STORE,
    ),
    Planted(
        "sums-outlive-their-entries",
        "the checksum of an entry goes with it",
        "quorum/journal.py",
        "        self._store.txn.delete(key, db=self._store.sums_db)\n",
        "",
        ("mixed", "lost names"),
    ),
    Planted(
        "one-ballot",
        "a vote or term that changed is read from its copy",
        "quorum/journal.py",
        "        found = ballot(kept, term, vote)\n",
        "        found = (term, vote)\n",
        STORE,
    ),
    Planted(
        "image-believed",
        "an image whose rows are not those that were sealed is made again",
        "quorum/opened_store.py",
        "    elif verdict is Verdict.DAMAGED:\n",
        "    elif verdict is None:\n",
        STORE,
    ),
    Planted(
        "meta-believed",
        "what of meta differs from its seal is put right",
        "snapshots/store.py",
        "                if seal.meta.get(name, meta.get(name)) != meta.get(name):\n",
        "                if False:\n",
        ("flips",),
    ),
    Planted(
        "damaged-rows-stay",
        "a forgotten image leaves no row in the next one",
        "snapshots/store.py",
        "        self.generation = self.fresh_generation()\n        self.meta_put",
        "        self.meta_put",
        STORE,
    ),
    Planted(
        "an-image-from-nowhere",
        "a node whose journal begins behind its image does not start with it",
        "quorum/opened_store.py",
        "    if applied + 1 < first:\n",
        "    if False:\n",
        ("bad node",),
    ),
    Planted(
        "older-store-believed",
        "a store that is older than its archive is a lost store",
        "quorum/older_store.py",
        "        if end > max(possible[log], noted.get(int(log), 0)):\n",
        "        if False:\n",
        ("lost flushes", "bad node"),
    ),
    Planted(
        "digests-not-compared",
        "a node that differs from a majority stops answering",
        "quorum/image_watch.py",
        "        if self._reports.refutes(version):\n",
        "        if False:\n",
        CHANGED,
    ),
    Planted(
        "bad-image-goes-on",
        "a node whose image is bad applies nothing",
        "quorum/image_watch.py",
        "        self.must_stop = self._raft.is_frozen = True\n",
        "        self.must_stop = True\n",
        CHANGED,
    ),
    Planted(
        "bad-image-for-ever",
        "an image that was restored is a good one",
        "quorum/image_watch.py",
        "        self._mark, self._trusted, self.must_stop = None, None, False\n"
        "        self._raft.is_frozen = False\n",
        "        self._trusted, self.must_stop = None, False\n",
        CHANGED,
    ),
    Planted(
        "archive-not-synced",
        "the archive is on the disk before the journal is cut",
        "quorum/snapshotter.py",
        "            voter.archiver.sync()\n",
        "",
        POWER,
    ),
    Planted(
        "archive-names-not-synced",
        "the name of a new segment is on the disk before the journal is cut",
        "snapshots/archive.py",
        "            if directory_dirty:\n",
        "            if False:\n",
        POWER,
    ),
    Planted(
        "compacted-past-the-archive",
        "the journal is cut only as far as the archive is on the disk",
        "quorum/snapshotter.py",
        "        target = min(snapshot_index, self._voter.archiver.marked_index)\n",
        "        target = snapshot_index\n",
        (*POWER, "bad calls"),
    ),
    Planted(
        "torn-batches-believed",
        "an archive is cut at the first batch whose checksum is wrong",
        "snapshots/segments.py",
        '        raise TornTail(f"the file ends after {len(content)} bytes of a batch of {header.size}")\n'
        "    checked_header(content)\n",
        '        raise TornTail(f"the file ends after {len(content)} bytes of a batch of {header.size}")\n',
        ("file flips", "lost names"),
    ),
    Planted(
        "sums-of-an-archive-believed",
        "no batch of an archive's segment is taken that is not as it was summed",
        "snapshots/segments.py",
        "    if read_sum(segment.path, NOT_SUMMED, summed.size, pace) != summed:\n",
        "    if False:\n",
        ("file flips",),
    ),
    Planted(
        "a-failed-disk-is-a-bug-of-the-decision",
        "a store that fails while a request is decided ends the process",
        "quorum/draft.py",
        "            decision = request.run(self.overlay, now_ms)\n"
        "        except ApiError as refusal:\n"
        "            self.refuse(request, refusal)\n"
        "            return True\n"
        "        except HALTING:\n",
        "            decision = request.run(self.overlay, now_ms)\n"
        "        except ApiError as refusal:\n"
        "            self.refuse(request, refusal)\n"
        "            return True\n"
        "        except ZeroDivisionError:\n",
        CALLS,
    ),
    Planted(
        "goes-on-after-a-failed-call",
        "a disk that fails ends the process",
        "node/driver.py",
        "            self.stop()\n            return [Halt(where, error)]",
        "            if not isinstance(error, OSError) or self._running is None:\n"
        "                self.stop()\n                return [Halt(where, error)]\n"
        "            return []",
        CALLS,
    ),
    Planted(
        "a-failed-flush-of-the-archive-is-forgotten",
        "an archive whose flush failed ends the process",
        "snapshots/archive.py",
        "                    flush(file.descriptor, file.path)\n",
        "                    try:\n"
        "                        flush(file.descriptor, file.path)\n"
        "                    except OSError:\n"
        "                        self.durable_end = end\n"
        "                        return end\n",
        ("bad calls", "mixed"),
    ),
    Planted(
        "deleted-topics-are-known",
        "a topic that was deleted is gone",
        "controller/topics.py",
        "    view.delete(TOPIC_NAMES, topic.topic_id)\n",
        "",
        ("pair cuts", "silences"),
    ),
    Planted(
        "answers-before-they-are-applied",
        "a refused flush gives no vote",
        "quorum/replica.py",
        "        if self.journal.must_flush:\n"
        "            self.journal.flush()\n"
        "        self._transport.release()\n",
        "        self._transport.release()\n"
        "        if self.journal.must_flush:\n"
        "            self.journal.flush()\n",
        ("bad calls", "lost names"),
    ),
    Planted(
        "installed-rows-not-summed",
        "the seal of an installed image is that of its rows",
        "snapshots/store.py",
        "            self._filled_sum += hashed\n",
        "",
        ("flips", "silences", "bad node"),
    ),
    Planted(
        "snapshots-not-verified",
        "a snapshot with a wrong byte is not installed",
        "snapshots/snapshot.py",
        "        if (actual, found) != (size, sha256):\n",
        "        if False:\n",
        ("bad node",),
    ),
    Planted(
        "campaigns-without-a-vote",
        "a node whose image is bad, or whose store is a new one, does not campaign",
        "quorum/replica.py",
        "            self.raft.tick(may_vote=self._may_vote)\n",
        "            self.raft.tick(may_vote=lambda: True)\n",
        ("changed rows", "bad node", "lost flushes"),
    ),
)
