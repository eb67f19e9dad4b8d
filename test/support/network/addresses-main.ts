import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { AgentConfig } from '../../../agent/config.js'
import { recordKernelSettings, restoreKernelSettings } from '../../../agent/daemon/kernel-record.js'
import { assignLxcAddresses } from '../../../agent/drivers/lxc/assign.js'
import { findLiveProcess } from '../../../agent/host/process/proc.js'
import { HostAddressBook, removeHostAddresses } from '../../../agent/network/address-book.js'
import { gateway6 } from '../../../agent/network/addresses/plan-host.js'
import { Routing } from '../../../agent/network/addresses/routing.js'
import type { AddressOrder } from '../../../agent/network/addresses/pools.js'
import type { GuestNetwork } from '../../../agent/network/contract.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { describeError } from '../../../shared/errors.js'
import { createLogger } from '../../../shared/logging.js'

/*
 * The address pools of an agent as a separate process, which a test can run inside a network namespace. Its journal is
 * in memory. Arguments: the configuration in JSON, and a directory for the record of the kernel's original settings (if
 * it is omitted, nothing is recorded). Each input line is {method, argument}; each output line {result} or {error}.
 */

const config = JSON.parse(process.argv[2] ?? '') as AgentConfig['network']
const log = createLogger({ name: 'addresses', level: 'error' })
const db = openDatabase(':memory:')
const [, , , stateDir = ''] = process.argv
const record = join(stateDir, 'kernel.json')
if (stateDir !== '') await recordKernelSettings(stateDir, config.bridge, record)
let ids = 0
const guests = new Map<string, GuestNetwork>()
/** Pids of the first processes of running guests. */
const running = new Map<string, number>()

const book = new HostAddressBook({
  db,
  config,
  log,
  assignInside: async (guest, gone) => {
    const init = findLiveProcess(running.get(guest.uuid) ?? 0)
    const { device, mac, ipv4, ipv6Addresses } = guest
    const nic = {
      device,
      mac,
      ipv4,
      ipv6Addresses,
      gateway6,
      bridge: config.bridge,
      prefixLength: 24,
      gateway: '',
    }
    if (init) await assignLxcAddresses(init, nic, gone)
  },
})
const routing = new Routing({
  changes: new Changes(db),
  config: { network: config, listen: '127.0.0.1:7443' },
  book,
  applyAddresses: () => book.ensure([...guests.values()]),
  log,
})

/** Adds a guest with exactly these addresses to the agent's journal. */
function store(guest: GuestNetwork): void {
  remove(guest.uuid)
  guests.set(guest.uuid, guest)
  const id = ++ids
  db.prepare(
    `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
     VALUES (?, ?, ?, '{}', 'running', 'running', ?, ?, ?, 0, 0)`,
  ).run(guest.uuid, id, guest.uuid, id, guest.ipv4, guest.mac)
  const insert = db.prepare('INSERT INTO guest_addresses (address, guest_uuid, family, position) VALUES (?, ?, ?, ?)')
  for (const [family, addresses] of [
    [4, guest.publicIpv4s],
    [6, guest.ipv6Addresses],
  ] as const)
    for (const [position, address] of addresses.entries()) insert.run(address, guest.uuid, family, position)
}

function remove(uuid: string): void {
  guests.delete(uuid)
  db.prepare('DELETE FROM guests WHERE uuid = ?').run(uuid)
}

const methods: Record<string, (argument: never) => unknown> = {
  store,
  remove,
  run: ({ uuid, pid }: { uuid: string; pid: number }) => void running.set(uuid, pid),
  choose: (order: AddressOrder) => book.choose(order),
  ensure: () => book.ensure([...guests.values()]),
  attach: (guest: GuestNetwork) => (store(guest), book.attach(guest)),
  detach: (guest: GuestNetwork) => book.detach(guest),
  warnings: () => book.warnings,
  purge: async () => {
    await removeHostAddresses(config, log)
    if (stateDir !== '') await restoreKernelSettings(stateDir, log, record)
  },
  getRouting: () => routing.getRouting(),
  setRouting: (change: Parameters<Routing['setRouting']>[0]) => routing.setRouting(change),
  scan: (request: Parameters<Routing['scanIpv4']>[0]) => routing.scanIpv4(request),
  status: () => routing.getIpv6Status(),
  close: () => book.close(),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as { method: string; argument: never }
  const answer = await Promise.resolve()
    .then(() => methods[method]!(argument))
    .then(
      (result) => ({ result: result ?? null }),
      (error: unknown) => ({ error: describeError(error) }),
    )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
