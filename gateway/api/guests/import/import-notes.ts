import type { ArchiveNote } from '../../../../proto/gen/berth/agent/v1/archive.js'
import type { Guest, GuestSpec } from '../../../../proto/gen/berth/agent/v1/guest.js'
import type { Principal } from '../../../access/principal.js'
import { checkMayAllowDevices } from '../device-schema.js'

/** Removes the devices of the manifest if the caller may not allow them, and adds a note. */
export function withoutRefusedDevices(
  caller: Principal,
  spec: GuestSpec,
  notes: readonly ArchiveNote[],
): { readonly spec: GuestSpec; readonly notes: readonly ArchiveNote[] } {
  try {
    checkMayAllowDevices(caller, spec.devices)
    return { spec, notes }
  } catch {
    const note = { part: 'devices', reason: `only administrators may allow devices: ${spec.devices.join(', ')}` }
    return { spec: { ...spec, devices: [] }, notes: [...notes, note] }
  }
}

/** Describes the host ports that the container did not get, because they are in use or not allowed on its host. */
export function portNotes(wanted: GuestSpec['portMappings'], created: Guest['portMappings']): ArchiveNote[] {
  return wanted
    .filter(({ hostPort }) => hostPort !== 0)
    .flatMap((mapping) => {
      const { protocol, hostIp, hostPort, containerPort } = mapping
      const given = created.find(
        (one) => one.protocol === protocol && one.hostIp === hostIp && one.containerPort === containerPort,
      )
      const part = `${protocol} port ${hostPort}`
      if (!given) return [{ part, reason: `the host does not have the address ${hostIp}` }]
      if (given.hostPort !== hostPort)
        return [{ part, reason: `it is in use or not allowed on the host: the container got port ${given.hostPort}` }]
      return []
    })
}
