// A player of the suite for kafkajs: `node player.js BOOTSTRAP`. Words: see ../players.py.
// kafkajs reads only as a member of a group: there is no word "read".

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const readline = require('node:readline')
const { createRequire } = require('node:module')

const installed = createRequire(`${process.cwd()}/`) // started in the folder that has node_modules
const { Kafka, logLevel } = installed('kafkajs')

const PARTITION = 0
const kafka = new Kafka({
  clientId: 'client-suite',
  brokers: process.argv[2].split(','),
  logLevel: logLevel.ERROR,
  logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
})
const producers = new Map() // name -> { producer, transaction }

const calls = {
  async make(name, ...settings) {
    const named = Object.fromEntries(settings.map(each => each.split(/=(.*)/s).slice(0, 2)))
    const producer = kafka.producer({
      transactionalId: named['transactional.id'],
      transactionTimeout: Number(named['transaction.timeout.ms'] ?? 60000),
      idempotent: true,
      maxInFlightRequests: 1,
    })
    await producer.connect()
    producers.set(name, { producer, transaction: await producer.transaction(), isFresh: true })
  },
  async begin(name) {
    const of = producers.get(name)
    if (!of.isFresh) of.transaction = await of.producer.transaction()
    of.isFresh = false // kafkajs asks for its producer id when the first transaction begins
  },
  async send(name, topic, ...values) {
    const messages = values.map(value => ({ value, partition: PARTITION }))
    await producers.get(name).transaction.send({ topic, messages })
  },
  async commit(name) {
    await producers.get(name).transaction.commit()
  },
  async abort(name) {
    await producers.get(name).transaction.abort()
  },
  async close(name) {
    await producers.get(name).producer.disconnect()
    producers.delete(name)
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
      answer('error', `${error.name}: ${error.message}`.replace(/\s+/g, ' '))
    }
  }
  process.exit(0)
}

main()
