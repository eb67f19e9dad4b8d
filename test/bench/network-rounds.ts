import { setTimeout as pause } from 'node:timers/promises'
import type { AgentConfig } from '../../agent/config.js'
import { planFirewall } from '../../agent/network/nft/firewall/plan-firewall.js'
import { scratchDirectory } from '../support/scratch.js'
import { timed } from './figures.js'
import { checkedFirewall, SimulatedHost } from './network-host.js'
import { note, restMs, type Action, type Scenario, type System, type Times } from './network-plan.js'
import { RawNft } from './network-raw.js'

/*
 * Measures one scenario, as a process in a network namespace. Argument: `RoundsOrder` in JSON. Output: the durations of
 * all rounds. The process ends when its parent ends.
 */

export interface RoundsOrder {
  readonly network: AgentConfig['network']
  readonly scenario: Scenario
  readonly rounds: number
  readonly scratch: string
}

/** A host port above the ports of the scenarios. */
const freePort = 59_000

interface Contestant {
  /** Adds a mapping. @returns a function that deletes it */
  addMapping(protocol: 'tcp' | 'udp', hostPort: number): Promise<() => Promise<unknown>>
  replaceFirewall(version: number): Promise<unknown>
}

const { network, scenario, rounds, scratch } = JSON.parse(process.argv[2] ?? '') as RoundsOrder
process.stdin.resume().once('end', () => process.exit(1))

const directory = scratchDirectory(scratch)
const host = new SimulatedHost(network, directory.path)
const raw = { spawned: new RawNft('spawned', network.table), pipe: new RawNft('pipe', network.table) }
try {
  await host.fill(scenario)
  process.stdout.write(JSON.stringify(await measure(listContestants())))
} finally {
  await Promise.all([host.close(), raw.spawned.close(), raw.pipe.close()])
  directory.wipe()
}
process.exit(0)

function listContestants(): Map<System, Contestant> {
  return new Map<System, Contestant>([
    ['Berth', host],
    ['only its network', networkAlone()],
    ['nft spawned', byHand(raw.spawned)],
    ['nft pipe', byHand(raw.pipe)],
  ])
}

/** The agent's class `Network` without journal and validation. */
function networkAlone(): Contestant {
  const guest = host.guest(0)
  return {
    addMapping: async (protocol, hostPort) => {
      const added = { protocol, hostIp: '', hostPort, hostPortEnd: hostPort, containerPort: 22 }
      await host.network.attach({ ...guest, portMappings: [...guest.portMappings, added] }, ['rules'])
      return () => host.network.attach(guest, ['rules'])
    },
    replaceFirewall: (version) => host.network.attach({ ...guest, firewall: checkedFirewall(50, version) }, ['rules']),
  }
}

/**
 * Uses nft(8) in the agent's own tables. nft(8) replaces the firewall of guest 1, and the agent replaces the firewall
 * of guest 0.
 */
function byHand(nft: RawNft): Contestant {
  const [{ ipv4 }, { device }] = [host.guest(0), host.guest(1)]
  return {
    addMapping: async (protocol, hostPort) => {
      await nft.addMapping(protocol, hostPort, `${ipv4} . 22`)
      return () => nft.deleteMapping(protocol, hostPort)
    },
    replaceFirewall: (version) => nft.replaceFirewall(planFirewall(device, checkedFirewall(50, version))!),
  }
}

/** Measures all systems, which take turns in each round. The first round is a warm-up. */
async function measure(contestants: ReadonlyMap<System, Contestant>): Promise<Times> {
  const times: Times = {}
  const each = async (act: (round: number, by: System, who: Contestant) => Promise<void>): Promise<void> => {
    for (let round = -1; round < rounds; round++) for (const [by, who] of contestants) await act(round, by, who)
  }
  const take = async (entry: { action: Action; by: System; round: number }, work: () => Promise<unknown>) => {
    const ms = await timed(work)
    if (entry.round >= 0) note(times, entry, ms)
    await pause(restMs)
  }
  for (const protocol of ['tcp', 'udp'] as const)
    await each(async (round, by, who) => {
      let remove = (): Promise<unknown> => Promise.resolve()
      const add = async (): Promise<void> => void (remove = await who.addMapping(protocol, freePort))
      await take({ action: `add a ${protocol} mapping`, by, round }, add)
      await take({ action: `delete a ${protocol} mapping`, by, round }, () => remove())
    })
  let version = scenario.guests
  if (scenario.rules > 0)
    await each((round, by, who) =>
      take({ action: 'replace 50 firewall rules', by, round }, () => who.replaceFirewall(++version)),
    )
  return times
}
