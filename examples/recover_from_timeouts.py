"""Transactions that may time out: the producer goes on, nothing is restarted (KIP-588's sample loop).

Run      python recover_from_timeouts.py BOOTSTRAP_SERVERS TOPIC [STALLS]
STALLS   how many transactions stall for longer than their timeout, as in a long pause of the process.
         It commits two transactions more than that, and prints what became of each.
"""

import asyncio
import sys

from fencepost.client import AbortableError, Producer, ProducerFenced, TransactionTimedOut

TIMEOUT_MS = 1_000
STALL_S = 12.0  # the coordinator looks for transactions that are too old every 10 s


async def main(bootstrap_servers: str, topic: str, stalls: int) -> None:
    """Commit until two transactions more than those that stall have been tried."""
    async with Producer(
        bootstrap_servers, transactional_id=f"{topic}-writer", transaction_timeout_ms=TIMEOUT_MS
    ) as producer:
        for number in range(stalls + 2):
            producer.begin_transaction()
            try:
                await producer.send_and_wait(topic, b"record %d" % number)
                if number < stalls:
                    await asyncio.sleep(STALL_S)
                await producer.commit_transaction()
                print(f"{number}: committed")
            except ProducerFenced:
                # Another instance has this transactional id: the only option is to end.
                print(f"{number}: fenced")
                raise
            except TransactionTimedOut:
                # Nothing of it is visible. This producer was not fenced: it aborts and goes on.
                await producer.abort_transaction()
                print(f"{number}: timed out")
            except AbortableError as error:
                await producer.abort_transaction()
                print(f"{number}: aborted: {error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1))
