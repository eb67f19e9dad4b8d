import { createInterface } from 'node:readline'
import pino from 'pino'
import { AbuseWatch } from '../../../agent/abuse/abuse-watch.js'
import { HostSensor } from '../../../agent/abuse/host-sensor.js'
import { AgentConfigSchema, type AgentConfig } from '../../../agent/config.js'
import { usualSecurity } from '../../../agent/guests/record/record.js'
import { GuestStore } from '../../../agent/guests/record/guest-store.js'
import type { GuestNetwork } from '../../../agent/network/contract.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { validateConfig } from '../../../shared/config.js'
import { describeError } from '../../../shared/errors.js'
import { guestOnNetwork } from '../network/guest-on-network.js'

/*
 * The agent's abuse monitor as a separate process, which a test can run inside a network namespace. It uses the agent's
 * real sensor, and an agent's journal in memory. Arguments: the configuration's `network` and `security` in JSON. Each
 * input line is {method, argument}; each output line is {result} or {error}.
 */

const [network, security] = process.argv.slice(2).map((text): unknown => JSON.parse(text)) as [
  AgentConfig['network'],
  object,
]
const config: AgentConfig = { ...validateConfig(AgentConfigSchema, { security }, 'test'), network }
const log = pino({ level: 'warn' }, pino.destination({ dest: 2, sync: true }))
const store = new GuestStore(new Changes(openDatabase(':memory:')))
const sensor = new HostSensor(config, (reason) => log.error({ reason }, 'listener'))
const watch = new AbuseWatch({
  context: { config, store, log, now: Date.now },
  sensor,
  policy: { judge: () => Promise.resolve() },
})

function addGuest(guest: GuestNetwork, isMailServer: boolean): void {
  store.insert(guestOnNetwork(guest))
  if (isMailServer) store.update(guest.uuid, { security: { ...usualSecurity, smtp: 'open' } })
}

const methods = {
  start: async ({ guests, mailServers }: { guests: readonly GuestNetwork[]; mailServers: readonly string[] }) => {
    for (const guest of guests) addGuest(guest, mailServers.includes(guest.uuid))
    await watch.start()
  },
  look: () => watch.monitor.look(),
  alerts: async () => watch.alerts.list(-1),
  logs: (uuid: string) => watch.readLogs(uuid),
  packets: async () => watch.monitor.packets,
  cpu: async () => process.cpuUsage(),
  close: () => watch.close(),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as { method: keyof typeof methods; argument: never }
  const answer = await methods[method](argument).then(
    (result) => ({ result: result ?? null }),
    (error: unknown) => ({ error: describeError(error) }),
  )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
