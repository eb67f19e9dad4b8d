import Database from 'better-sqlite3'
import { join } from 'node:path'
import type { Instance, Inventory } from './inventory.js'

/* Reads the desired state of the host from the agent's journal by SQL, without the agent's code (see inventory.ts). */

/** Returns the desired state of the host. It is valid only while no operation is in progress. */
export function readExpected(instance: Instance): Inventory {
  const db = new Database(join(instance.stateDir, 'journal.db'), { readonly: true })
  try {
    return expectedOf(db, instance)
  } finally {
    db.close()
  }
}

interface GuestRow {
  uuid: string
  id: number
  spec: string
  status: string
  idmap_slot: number
  ipv4: string
  mac: string
}

function expectedOf(db: Database.Database, { interfacePrefix }: Instance): Inventory {
  const guests = db.prepare<[], GuestRow>('SELECT * FROM guests').all()
  const running = guests.filter((g) => g.status === 'running')
  const nameOf = ({ id }: GuestRow): string => `${interfacePrefix}-${id}`
  const machines = guests.filter((g) => isMachine(g))
  const isRunning = (g: GuestRow): boolean => g.status === 'running'
  const containers = guests.filter((g) => !isMachine(g))
  // Ranges with equal host and container ports are in another nft map, which settings-inventory.ts reads.
  const ports = db
    .prepare<[], { line: string }>(
      `WITH RECURSIVE singles (guest_uuid, protocol, host_port, host_port_end, container_port) AS (
         SELECT guest_uuid, protocol, host_port, host_port_end, container_port FROM port_mappings
         WHERE host_port = host_port_end OR host_port <> container_port
         UNION ALL
         SELECT guest_uuid, protocol, host_port + 1, host_port_end, container_port + 1 FROM singles
         WHERE host_port < host_port_end)
       SELECT CASE protocol WHEN 'tcp' THEN 6 ELSE 17 END || ' . ' || host_port || ' : ' || ipv4 || ' . ' || container_port AS line
       FROM singles JOIN guests ON uuid = guest_uuid`,
    )
    .all()
  return {
    subvolumes: guests.flatMap((g) => [g.uuid, ...rescuesOf(g)]).sort(),
    quotaFaults: [],
    idmaps: containers.map((g) => `${g.id} ${userIdOf(g)}`).sort(),
    antiSpoofing: guests.map((g) => `"${interfacePrefix}${g.id}" . ${g.mac} . ${g.ipv4}`).sort(),
    ports: ports.map(({ line }) => line).sort(),
    interfaces: running.flatMap((g) => interfacesOf(g, interfacePrefix)).sort(),
    monitors: containers.filter(isRunning).map(nameOf).sort(),
    machines: machines
      .filter(isRunning)
      .map((g) => `${nameOf(g)} ${userIdOf(g)}`)
      .sort(),
    machineFiles: [
      ...machines.map((g) => `${nameOf(g)}: ${configFiles}`),
      ...machines.filter(isRunning).map((g) => `${nameOf(g)}: ${runFiles}`),
    ].sort(),
    cgroups: running.map(nameOf).sort(),
    locks: [],
    mounts: [],
  }
}

const isMachine = ({ spec }: GuestRow): boolean =>
  (JSON.parse(spec) as { virtualization?: string }).virtualization === 'kvm'
const userIdOf = (g: GuestRow): number => 1_000_000 + g.idmap_slot * 65_536
const configFiles = 'machine.json seed.iso'
const runFiles = 'agent launched.json qmp qmp2 serial work'
/** Returns the volume of the guest's rescue system, if the guest boots from it. */
function rescuesOf({ uuid, spec }: GuestRow): string[] {
  const { boot } = JSON.parse(spec) as { boot?: { mode: string } }
  return boot?.mode === 'rescue' ? [`${uuid}.rescue`] : []
}

/** Returns the guest's interface, and the intermediate interface that limits its upload rate, if there is a limit. */
function interfacesOf({ id, spec }: GuestRow, prefix: string): string[] {
  const { limits } = JSON.parse(spec) as { limits: { networkUpMbps: number } }
  return [`${prefix}${id}`, ...(limits.networkUpMbps > 0 ? [`${prefix}${id}u`] : [])]
}

/** Returns the action, current step and last failure of each operation that has not ended. */
export function readOpenOperations({ stateDir }: Instance): string[] {
  const db = new Database(join(stateDir, 'journal.db'), { readonly: true })
  try {
    return db
      .prepare<[], string>(
        `SELECT action || ' of ' || subject_name || ', ' || status || ' ' || stage || ' ' || error FROM operations
         WHERE status IN ('pending', 'running')`,
      )
      .pluck()
      .all()
  } finally {
    db.close()
  }
}
