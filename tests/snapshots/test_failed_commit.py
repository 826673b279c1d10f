"""What a store raises once the system refused to keep what was written."""

from pathlib import Path

import lmdb
import pytest

from fencepost.snapshots.store import Store


class FailingTransaction:
    """Its commit fails."""

    def commit(self) -> None:
        raise lmdb.Error("no space")


def test_a_commit_that_failed_is_what_each_use_raises(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    store.meta_put("name", b"value")
    whole, store._txn = store.txn, FailingTransaction()  # type: ignore[assignment]
    for use in (store.commit, store.flush, lambda: store.meta_get("name"), store.close):
        with pytest.raises(lmdb.Error, match=r"data\.mdb: no space"):
            use()
    whole.abort()
    store.env.close()
