"""Mutants of what ``bench transactions`` says of two clusters."""

from typing import Final

from tests.mutants.mutant import Mutant

TRANSACTIONS: Final = "tests/cli/test_bench_transactions.py::"
ROWS: Final = "bench/transactions.py"

BENCHES: Final = (
    Mutant(
        "bench-windows-one-way",
        "windows of two clusters are in ABBA order: what grows with time harms both",
        ROWS,
        "        for position in order if window % 2 == 0 else reversed(order):\n",
        "        for position in order:\n",
        (TRANSACTIONS + "test_windows_are_in_abba_order_each_with_a_topic_of_its_own",),
    ),
    Mutant(
        "bench-best-window",
        "a row's rate is the median of its windows",
        ROWS,
        "round(median(self.rates), 1)",
        "round(max(self.rates), 1)",
        (TRANSACTIONS + "test_a_row_has_the_median_of_its_windows_and_the_cpu_time_of_one_transaction",),
    ),
    Mutant(
        "bench-cpu-of-one-window",
        "the CPU time of a transaction is of all windows",
        ROWS,
        "self.cpu_s.get(name, 0.0) + used_s",
        "used_s",
        (TRANSACTIONS + "test_a_row_has_the_median_of_its_windows_and_the_cpu_time_of_one_transaction",),
    ),
    Mutant(
        "bench-protocol-of-the-cluster",
        "a row names the protocol that its client uses, not the newest that its cluster has",
        "bench/transaction_subjects.py",
        "V2 if client not in V1_ONLY and self",
        "V2 if self",
        (TRANSACTIONS + "test_a_row_says_which_protocol_its_client_uses",),
    ),
    Mutant(
        "bench-one-failure-ends-it",
        "a window that fails harms its row alone: an hour's figures are not lost with it",
        ROWS,
        "            self.faults.append(error.message)\n            return False\n",
        "            self.faults.append(error.message)\n            raise\n",
        (TRANSACTIONS + "test_a_window_that_fails_is_a_fault_and_the_others_count",),
    ),
    Mutant(
        "bench-any-size",
        "what is read back has the size that was to be measured",
        "bench/transaction_records.py",
        "            if len(record.value) != load.message_bytes:\n",
        "            if False:\n",
        ("tests/cli/test_transaction_load.py::test_values_have_the_size_that_is_wanted",),
    ),
    Mutant(
        "bench-any-socket",
        "a node's process is the one that listens on its port, not one that has a connection there",
        "bench/listeners.py",
        "if columns[_STATE] == LISTEN and local_port == port:",
        "if local_port == port:",
        (TRANSACTIONS + "test_the_process_that_listens_on_a_port_is_found",),
    ),
)
