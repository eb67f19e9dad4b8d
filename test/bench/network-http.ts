import { setTimeout as pause } from 'node:timers/promises'
import { Nft } from '../../agent/host/net/nft.js'
import { planFirewall } from '../../agent/network/nft/firewall/plan-firewall.js'
import { chain, inTable, map } from '../../agent/network/nft/ruleset/plan-items.js'
import type { BerthApi } from './berth-api.js'
import { figure, median, timed, type Figure } from './figures.js'
import { checkedFirewall } from './network-host.js'
import { restMs, type System } from './network-plan.js'
import { RawNft } from './network-raw.js'
import { benchSettingParts } from './setting-parts.js'

const guest = 'network-bench'
const path = `/containers/${guest}`
/** A separate table that no packet passes. The agent would undo changes of its own tables. */
const table = 'btestbench'
const device = 'bb1'
const port = 59_000

interface Row {
  readonly name: string
  readonly berth: () => Promise<unknown>
  readonly raw: (nft: RawNft) => Promise<unknown>
}

/**
 * Measures changes of a running guest's port mappings and firewall through the API, from the request to the response.
 * The comparison is nft(8) by hand in an equivalent table.
 * @returns undefined if the instance does not have these routes
 */
export async function benchNetworkHttp(api: BerthApi, rounds: number): Promise<Figure[] | undefined> {
  await removeGuest(api)
  await api.create(guest)
  try {
    await api.untilStatus(guest, 'running')
    // The guest exists, so the answer "not found" means that this version does not have the route.
    if (!(await api.exists(`${path}/random-port`))) return undefined
    const parts = await benchSettingParts(api, path, rounds)
    return [...(await beside((nfts) => measure(listRows(api), nfts, rounds))), ...parts]
  } finally {
    await removeGuest(api)
  }
}

type Nfts = ReadonlyMap<System, RawNft>

/** Runs the rounds with a separate nft table and then removes the table. */
async function beside<T>(work: (nfts: Nfts) => Promise<T>): Promise<T> {
  const nft = new Nft()
  const [spawned, pipe] = [new RawNft('spawned', table), new RawNft('pipe', table)]
  const remove = ['ip', 'inet'].flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
  try {
    const ports = map('ports', 'type inet_proto . inet_service : ipv4_addr . inet_service;')
    const chains = [chain(`in_${device}`), chain(`out_${device}`)]
    await nft.apply([...remove, ...inTable('ip', table, [ports]), ...inTable('inet', table, chains)])
    return await work(
      new Map([
        ['nft spawned', spawned],
        ['nft pipe', pipe],
      ]),
    )
  } finally {
    await nft.apply(remove)
    await Promise.all([nft, spawned, pipe].map((each) => each.close()))
  }
}

function listRows(api: BerthApi): Row[] {
  let index = 0
  let version = 0
  const add = async (): Promise<void> => {
    const mappings = await api.call<unknown[]>('POST', `${path}/port-mappings`, { container_port: 80 })
    index = mappings.length - 1
  }
  return [
    {
      name: 'POST port-mappings',
      berth: add,
      raw: (nft) => nft.addMapping('tcp', port, '10.77.0.2 . 80'),
    },
    {
      name: 'PUT port-mappings/{index}',
      berth: () => api.call('PUT', `${path}/port-mappings/${index}`, { container_port: 81 }),
      raw: (nft) => nft.moveMapping('tcp', port, '10.77.0.2 . 81'),
    },
    {
      name: 'DELETE port-mappings/{index}',
      berth: () => api.call('DELETE', `${path}/port-mappings/${index}`),
      raw: (nft) => nft.deleteMapping('tcp', port),
    },
    {
      name: 'PUT firewall, 50 rules',
      berth: () => api.call('PUT', `${path}/firewall`, bodyOf(++version)),
      raw: (nft) => nft.replaceFirewall(planFirewall(device, checkedFirewall(50, ++version))!),
    },
  ]
}

/** Measures each row once per round. The first round is a warm-up. */
async function measure(rows: readonly Row[], nfts: Nfts, rounds: number): Promise<Figure[]> {
  const times = new Map<string, number[]>()
  const take = async (key: string, round: number, work: () => Promise<unknown>): Promise<void> => {
    const ms = await timed(work)
    if (round >= 0) times.set(key, [...(times.get(key) ?? []), ms])
    await pause(restMs)
  }
  for (let round = -1; round < rounds; round++) {
    for (const { name, berth } of rows) await take(`${name} Berth`, round, berth)
    for (const [by, nft] of nfts) for (const { name, raw } of rows) await take(`${name} ${by}`, round, () => raw(nft))
  }
  const medianOf = (name: string, by: System): number => median(times.get(`${name} ${by}`) ?? [])
  const all: System[] = ['Berth', ...nfts.keys()]
  return rows.map(({ name }) => figure(name, 'ms', Object.fromEntries(all.map((by) => [by, medianOf(name, by)]))))
}

/** Returns the firewall in the form of the API. */
function bodyOf(version: number): unknown {
  const { enabled, defaultAction, rules } = checkedFirewall(50, version)
  const rows = rules.map(({ direction, protocol, action, network, sourceIp, port }) => ({
    direction,
    protocol,
    action,
    network,
    port,
    source_ip: sourceIp,
  }))
  return { enabled, default_action: defaultAction, rules: rows }
}

/** Removes the guest of this run, or of an earlier one. */
async function removeGuest(api: BerthApi): Promise<void> {
  if (!(await api.exists(path))) return
  await api.call('DELETE', `${path}/delete`)
  await api.untilGone(guest)
}
