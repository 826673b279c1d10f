// A member of a group that reads, processes and writes in transactions, with kafkajs. Words: see ../owners.py.

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const readline = require('node:readline')
const { createRequire } = require('node:module')

const installed = createRequire(`${process.cwd()}/`) // started in the folder that has node_modules
const { Kafka, logLevel } = installed('kafkajs')

const [bootstrap, group, source, target, owner, way] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: owner,
  brokers: bootstrap.split(','),
  logLevel: logLevel.ERROR,
  logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
})
const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500 })
const admin = kafka.admin()
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const writers = new Map() // partition -> { producer, transaction: the first, which initialized it }

function say(...words) {
  process.stdout.write(`${words.join(' ')}\n`)
}

// What belongs to a partition is made anew when it comes back.
async function forget() {
  const old = [...writers.values()]
  writers.clear()
  await Promise.all(old.map(each => each.producer.disconnect()))
}

async function initialize(partition) {
  const transactionalId = way === 'partition' ? `${group}-${partition}` : owner
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const transaction = await producer.transaction() // asks for its producer id: an earlier owner's is aborted
  writers.set(partition, { producer, transaction })
}

// The consumer has fetched its offset before an application hears of the partition: here it is fetched again.
async function again(partition) {
  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [source] })
  const offset = partitions.find(each => each.partition === partition)?.offset ?? '-1'
  consumer.seek({ topic: source, partition, offset: offset === '-1' ? '0' : offset })
}

async function transact(writer, partition, message) {
  const transaction = writer.transaction ?? (await writer.producer.transaction())
  writer.transaction = null
  await transaction.send({ topic: target, messages: [{ value: message.value }] })
  const offset = String(BigInt(message.offset) + 1n)
  await transaction.sendOffsets({
    consumerGroupId: group,
    topics: [{ topic: source, partitions: [{ partition, offset }] }],
  })
  say('pending', message.offset)
  await lines.next()
  await transaction.commit()
  say('committed', message.offset)
}

async function main() {
  await admin.connect()
  if (way === 'partition') consumer.on(consumer.events.GROUP_JOIN, forget)
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    async eachBatch({ batch, resolveOffset, heartbeat, isStale }) {
      if (!writers.has(batch.partition)) {
        await initialize(batch.partition)
        if (way === 'partition') return again(batch.partition)
      }
      for (const message of batch.messages) {
        if (isStale()) return
        await transact(writers.get(batch.partition), batch.partition, message).catch(fail)
        resolveOffset(message.offset)
        await heartbeat()
      }
    },
  })
}

function fail(error) {
  say('failed', error.message.replace(/\s+/g, ' '))
  process.exit(0)
}

main().catch(fail)
