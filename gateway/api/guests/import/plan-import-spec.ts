import type { ArchiveNote, DescribeArchiveResponse } from '../../../../proto/gen/berth/agent/v1/archive.js'
import { GuestSpec, type GuestLimits, type PortMapping } from '../../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, invalidField } from '../../../../shared/errors.js'
import { checkInteger } from '../../../../shared/field-checks.js'
import { parseGuestDevices } from '../../../../shared/guest-devices.js'
import { defaultSnapshotLimit, limits as ranges } from '../../../../shared/guest-rules.js'
import { parseTags } from '../../../../shared/label-rules.js'
import { checkPortMapping } from '../../../../shared/port-mapping-rules.js'
import type { Principal } from '../../../access/principal.js'
import { checkName } from '../create/plan-create.js'
import { withoutRefusedDevices } from './import-notes.js'
import type { ImportQuery } from './import-query.js'

/** The container of an archive. */
export interface PlannedImport {
  readonly name: string
  /** Specification without `importId`. */
  readonly spec: GuestSpec
  readonly notes: readonly ArchiveNote[]
}

/** Maximum number of notes. The agent makes at most one for each port mapping, and a few others. */
const mostNotes = 1100
const longestNote = 500

/**
 * Plans the container of an archive that a host has described. The host can be another one than the host of the new
 * container, so its answer is not trusted: only settings that an archive can have are used, and all are checked.
 * @throws {BerthError} `invalid_field` for the name, or for `start` if the archive contains a firewall, which is not
 * imported; `agent_error` if the host describes an invalid container
 */
export function planImportSpec(
  described: DescribeArchiveResponse,
  query: ImportQuery,
  caller: Principal,
): PlannedImport {
  const name = query.name || described.name
  checkName(name)
  const spec = checkAnswer(() => planSpec(described, query))
  const notes = described.notes
    .slice(0, mostNotes)
    .map(({ part, reason }) => ({ part: cut(part), reason: cut(reason) }))
  if (spec.start && notes.some(({ part }) => part === 'firewall'))
    throw invalidField(
      'start',
      'start: the archive contains a firewall, which is not imported: import it stopped, set its rules, and start it',
    )
  return { name, ...withoutRefusedDevices(caller, spec, notes) }
}

function planSpec({ spec: described }: DescribeArchiveResponse, query: ImportQuery): GuestSpec {
  if (!described?.limits) throw new Error('no limits')
  checkInteger('port_mappings', described.portMappings.length, ranges.portMappings)
  return GuestSpec.create({
    virtualization: 'lxc',
    limits: planLimits(described.limits, query),
    assignNat: true,
    portMappings: described.portMappings.map(planMapping),
    devices: parseGuestDevices(described.devices),
    tags: parseTags(described.tags),
    snapshotLimit: defaultSnapshotLimit,
    start: query.start ?? false,
  })
}

/** Returns the limits of the archive. Those in the query replace them. */
function planLimits(own: GuestLimits, { vcpu, ram_mb: ramMb, disk_gb: diskGb }: ImportQuery): GuestLimits {
  return {
    vcpuMilli: checkInteger('vcpu', vcpu === undefined ? own.vcpuMilli : Math.round(vcpu * 1000), ranges.vcpuMilli),
    ramMb: checkInteger('ram_mb', ramMb ?? own.ramMb, ranges.ramMb),
    diskGb: checkInteger('disk_gb', diskGb ?? own.diskGb, ranges.diskGb),
    networkDownMbps: checkInteger('network_down_mbps', own.networkDownMbps, ranges.networkMbps),
    networkUpMbps: checkInteger('network_up_mbps', own.networkUpMbps, ranges.networkMbps),
    ioReadMbps: checkInteger('io_read_mbps', own.ioReadMbps, ranges.ioMbps),
    ioWriteMbps: checkInteger('io_write_mbps', own.ioWriteMbps, ranges.ioMbps),
    ioReadIops: checkInteger('io_read_iops', own.ioReadIops ?? 0, ranges.iops),
    ioWriteIops: checkInteger('io_write_iops', own.ioWriteIops ?? 0, ranges.iops),
  }
}

function planMapping(own: PortMapping): PortMapping {
  const { length: _length, ...mapping } = checkPortMapping(own)
  return mapping
}

/** An invalid answer is an error of the host, not of the request. */
function checkAnswer<T>(plan: () => T): T {
  try {
    return plan()
  } catch (cause) {
    const message = 'the answer of the host does not describe a valid container'
    throw new BerthError('internal', 'agent_error', message, { cause })
  }
}

const cut = (text: string): string => text.slice(0, longestNote)
