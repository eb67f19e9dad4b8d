import { createInterface } from 'node:readline'
import { NetlinkWatch } from '../../../agent/host/net/netlink-watch.js'
import { createRules } from '../../../agent/network/nft/rules.js'
import type { GuestNetwork } from '../../../agent/network/contract.js'
import { describeError } from '../../../shared/errors.js'
import type { LabAgentOptions } from './network-lab.js'

/*
 * The network of an agent as a separate process, which a test can run inside a network namespace. Arguments: the
 * configuration and the options of a lab's agent in JSON. Input lines: {method, argument}; output lines: {result} or
 * {error}.
 */

type Method = 'ensure' | 'attach' | 'detach' | 'remove' | 'close' | 'counters' | 'warnings'

const [config, { watches = false, countInternal = false }] = process.argv
  .slice(2)
  .map((text): unknown => JSON.parse(text)) as [Parameters<typeof createRules>[0], LabAgentOptions]
const watch = watches ? new NetlinkWatch(config) : undefined
const network = createRules(config, {
  countInternal,
  resolvers: config.resolvers,
  ...(watch ? { watch } : {}),
})

// Repairs the network as the agent does: after each change by another program, and every 3 s in case a repair failed.
let guests: GuestNetwork[] = []
const repair = (): void => void network.ensure(guests).catch(() => undefined)
if (watches) {
  network.onForeignChange(repair)
  setInterval(() => guests.length > 0 && repair(), 3000).unref()
}

function call(method: Method, argument: never): Promise<unknown> {
  if (method === 'warnings') return Promise.resolve(network.warnings)
  if (method === 'counters') return network.readCounters().then((counters) => Object.fromEntries(counters))
  return network[method](argument)
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as { method: Method; argument: never }
  if (method === 'ensure') guests = argument
  const answer = await call(method, argument).then(
    (result) => ({ result: result ?? null }),
    (error: unknown) => ({ error: describeError(error) }),
  )
  if (method === 'close') watch?.close()
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
