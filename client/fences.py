"""The history of fences of a transactional id, as people read it."""

from fencepost.wire.k20065_explain_transaction import UNKNOWN, FenceExplained


def fence_text(fence: FenceExplained) -> str:
    """Who lost which epoch to whom, and which epoch came after it."""
    by = f" (client id {fence.client_id!r})" if fence.client_id else ""
    timeout = f" of {fence.timeout_ms} ms" if fence.timeout_ms != UNKNOWN else ""
    return (
        f"producer {fence.producer_id}, epoch {fence.epoch} was fenced by {fence.cause}{timeout}{by}"
        f"{_later(fence)}"
    )


def _later(fence: FenceExplained) -> str:
    if fence.later_epoch == UNKNOWN:
        return ""
    if fence.later_producer_id != fence.producer_id:
        return f"; producer {fence.later_producer_id}, epoch {fence.later_epoch} came after it"
    if fence.later_epoch == fence.epoch + 1:
        return f"; epoch {fence.later_epoch} came after it"
    return f"; epochs up to {fence.later_epoch} came after it"
