// An application of the corpus with kafkajs: `node orders.js BOOTSTRAP TOPIC ID HOW`.
// HOW is "right", or the name of a bug; see ../other_languages.py. Orders are lines of stdin.

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const { createRequire } = require('node:module')
const { readFileSync } = require('node:fs')

const installed = createRequire(`${process.cwd()}/`) // started in the folder that has node_modules
const { Kafka, logLevel } = installed('kafkajs')

const [bootstrap, topic, transactionalId, how] = process.argv.slice(2)
const orders = readFileSync(0, 'utf8').split('\n').filter(Boolean)
const kafka = new Kafka({ clientId: 'orders', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
let failed = false

// The order and its invoice. Fails once, between the two.
async function both(writer, order) {
  await writer.send({ topic, messages: [{ value: order, partition: 0 }] })
  if (order === orders[2] && !failed) {
    failed = true
    throw new Error('the invoice cannot be made')
  }
  await writer.send({ topic, messages: [{ value: `${order}-invoice`, partition: 0 }] })
}

async function main() {
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
  const plain = kafka.producer()
  await Promise.all([producer.connect(), plain.connect()])
  for (const order of orders) {
    for (let isDone = false; !isDone;) {
      const transaction = await producer.transaction()
      try {
        await both(how === 'plain-producer' ? plain : transaction, order)
      } catch (error) {
        if (how !== 'catches') {
          await transaction.abort()
          continue
        }
      }
      await transaction.commit()
      isDone = true
    }
  }
  await Promise.all([producer.disconnect(), plain.disconnect()])
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})
