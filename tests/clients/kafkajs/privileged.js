// One principal's work, with kafkajs: `node privileged.js DOOR`. Verbs: see ../least_privilege.py.

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const fs = require('node:fs')
const readline = require('node:readline')
const { createRequire } = require('node:module')

const installed = createRequire(`${process.cwd()}/`) // started in the folder that has node_modules
const { Kafka, logLevel } = installed('kafkajs')

const TIMEOUT_MS = 15000
const door = JSON.parse(process.argv[2])
const own = door.user ? {} : { key: fs.readFileSync(door.key), cert: fs.readFileSync(door.key) }
const kafka = new Kafka({
  brokers: door.bootstrap.split(','),
  ssl: { ca: [fs.readFileSync(door.ca)], ...own },
  sasl: door.user ? { mechanism: 'scram-sha-512', username: door.user, password: door.password } : undefined,
  retry: { retries: 2 },
  logLevel: logLevel.ERROR,
  logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
})

const calls = {
  async produce(topic, value) {
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    try {
      await producer.connect()
      await producer.send({ topic, messages: [{ value, partition: 0 }] })
    } finally {
      await producer.disconnect()
    }
  },
  async transact(name, topic, value, group, source, offset) {
    const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 })
    try {
      await producer.connect()
      const transaction = await producer.transaction()
      try {
        const topics = [{ topic: source, partitions: [{ partition: 0, offset }] }]
        await transaction.sendOffsets({ consumerGroupId: group, topics })
        await transaction.send({ topic, messages: [{ value, partition: 0 }] })
        await transaction.commit()
      } catch (error) {
        await transaction.abort().catch(() => {})
        throw error
      }
    } finally {
      await producer.disconnect()
    }
  },
  async consume(group, topic) {
    const consumer = kafka.consumer({ groupId: group, retry: { retries: 2, restartOnFailure: async () => false } })
    try {
      await consumer.connect()
      await new Promise((done, failed) => {
        setTimeout(() => failed(new Error('no record came')), TIMEOUT_MS)
        consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error))
        consumer
          .subscribe({ topics: [topic], fromBeginning: true })
          .then(() =>
            consumer.run({
              autoCommit: false,
              eachMessage: ({ partition, message }) => {
                const offset = String(Number(message.offset) + 1)
                return consumer.commitOffsets([{ topic, partition, offset }]).then(done, failed)
              },
            })
          )
          .catch(failed)
      })
    } finally {
      await consumer.disconnect()
    }
  },
}

function answer(...words) {
  process.stdout.write(`${words.join('\t')}\n`)
}

async function main() {
  answer('ok', installed('kafkajs/package.json').version)
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split('\t')
    try {
      await calls[verb](...words)
      answer('ok')
    } catch (error) {
      process.stderr.write(`${line}: ${error.stack}\n`)
      const type = error.type ?? error.cause?.type ?? error.name
      answer('error', `${type}: ${error.message}`.replace(/\s+/g, ' '))
    }
  }
  process.exit(0)
}

main()
