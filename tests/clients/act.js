// kafkajs plays one story against a cluster and prints what it saw, as JSON: STORY BOOTSTRAP TOPIC.
// The stories are those of act.py. kafkajs reads only in groups, so what was written is read by another library.

const { Kafka, logLevel } = require("kafkajs");

const TRANSACTIONS = 6;
const MESSAGES = 10;
const PRODUCED = 50;
const TIMEOUT_MS = 1000;
const WAIT_MS = 30000;
const POLL_MS = 50;

const [story, bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "act", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

const send = (sender, ...values) =>
  sender.send({ topic, acks: -1, messages: values.map((value) => ({ value, partition: 0 })) });

const started = async (settings) => {
  const producer = kafka.producer({ allowAutoTopicCreation: true, ...settings });
  await producer.connect();
  return producer;
};

const transactional = (settings = {}) =>
  started({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1, ...settings });

const errorOf = async (attempt) => {
  try {
    await attempt();
    return null;
  } catch (error) {
    return `${error.type || error.name}: ${error.message}`;
  }
};

const one = async (producer, value) => {
  const transaction = await producer.transaction();
  await send(transaction, value);
  await transaction.commit();
};

const numbered = (count, prefix) => [...Array(count).keys()].map((number) => `${prefix}-${number}`);

const stories = {
  async plain() {
    for (const idempotent of [true, false]) {
      const producer = await started({ idempotent, maxInFlightRequests: 1 });
      await send(producer, ...numbered(PRODUCED, idempotent ? "True" : "False"));
      await producer.disconnect();
    }
    return {};
  },

  async transactions() {
    const producer = await transactional();
    for (let number = 0; number < TRANSACTIONS; number += 1) {
      const transaction = await producer.transaction();
      await send(transaction, ...numbered(MESSAGES, number));
      await (number % 2 ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
    return {};
  },

  async fenced() {
    const first = await transactional();
    await one(first, "first-committed");
    const open = await first.transaction();
    await send(open, "first-open");
    const second = await transactional();
    const theirs = await second.transaction(); // only now it asks who it is
    const error = await errorOf(async () => {
      await send(open, "too-late");
      await open.commit();
    });
    const again = await errorOf(() => one(first, "next"));
    await send(theirs, "second-committed");
    await theirs.commit();
    return { error, again };
  },

  async timed_out() {
    const producer = await transactional({ transactionTimeout: TIMEOUT_MS });
    const open = await producer.transaction();
    await send(open, "late");
    const admin = kafka.admin();
    await admin.connect();
    for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; ) {
      const [{ high }] = await admin.fetchTopicOffsets(topic);
      if (Number(high) >= 2) break; // the record, and the marker of its abort
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    const error = await errorOf(async () => {
      await send(open, "too-late");
      await open.commit();
    });
    const successor = await transactional();
    await one(successor, "next");
    return { error };
  },
};

stories[story]().then(
  (saw) => {
    process.stdout.write(JSON.stringify(saw));
    process.exit(0);
  },
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
  },
);
