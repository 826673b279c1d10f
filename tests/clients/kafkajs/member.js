// A member of a group, with kafkajs: what ../group_story.py says. BOOTSTRAP GROUP TOPIC WAY

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const { createRequire } = require('node:module')

const installed = createRequire(`${process.cwd()}/`) // started in the folder that has node_modules
const { Kafka, logLevel } = installed('kafkajs')

const [bootstrap, group, topic] = process.argv.slice(2)
const kafka = new Kafka({
  brokers: bootstrap.split(','),
  logLevel: logLevel.ERROR,
  logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
})
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: 6000,
  heartbeatInterval: 500,
  maxWaitTimeInMs: 500,
})

function say(...words) {
  process.stdout.write(`${words.join(' ')}\n`)
}

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    say(JSON.stringify((payload.memberAssignment[topic] ?? []).sort((a, b) => a - b)))
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    say('failed', payload.error.type ?? payload.error.name, payload.error.message.replace(/\s+/g, ' '))
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect() // leaves the group
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async () => {} })
}

main().catch(error => {
  say('failed', error.message.replace(/\s+/g, ' '))
  process.exit(1)
})
