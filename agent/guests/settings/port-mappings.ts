import { conflict } from '../../../shared/errors.js'
import { limits } from '../../../shared/guest-rules.js'
import {
  changePortMapping,
  checkPortMapping,
  type CheckedMapping,
  type MappingProtocol,
  type WantedMapping,
} from '../../../shared/port-mapping-rules.js'
import { readListeningPorts } from '../../network/ports.js'
import type { GuestContext } from '../context.js'
import { mappingAt, refuseMorePorts, spanOf } from '../resources/host-ports.js'
import { networkOf } from '../resources/network.js'
import type { GuestRecord, PortMapping } from '../record/record.js'
import { changeGuest, type SettingChange, type Target } from './change.js'

export type MappingChange = Parameters<typeof changePortMapping>[1]

export interface FreePortsQuery {
  readonly protocol: MappingProtocol
  readonly hostIp: string
  readonly count: number
}

interface Place {
  readonly record: GuestRecord
  /** The existing mapping that `wanted` replaces. */
  readonly replaced?: PortMapping
  readonly position: number
  readonly listening: ReadonlySet<string>
}

/** Reserves a removed mapping's ports until its nft rules are removed. @returns a function that restores the mapping */
type Freeing = (position: number, old: PortMapping) => () => void

export class PortMappings {
  constructor(private readonly context: GuestContext) {}

  /**
   * Adds a mapping at the end of the guest's list.
   * @throws {BerthError} `invalid_field`, `port_conflict`, `resource_exhausted`, `quota_exceeded` if the guest's ports
   * would exceed the target's `portLimit`, and the errors of `changeGuest`
   */
  async add(target: Target, wanted: WantedMapping): Promise<GuestRecord> {
    const checked = checkPortMapping(wanted)
    const { store } = this.context
    let listening: ReadonlySet<string> = new Set()
    const prepare = async (): Promise<void> => void (listening = await readListeningPorts([checked.protocol]))
    const write = (record: GuestRecord): (() => void) => {
      if (record.portMappings.length >= limits.portMappings.max)
        throw conflict('resource_exhausted', `a container can have at most ${limits.portMappings.max} mappings`)
      if (target.portLimit !== undefined) refuseMorePorts(record.portMappings, checked, target.portLimit)
      const position = store.nextPosition(record.uuid)
      this.#put({ record, position, listening }, checked)
      return () => store.removeMapping(record.uuid, position)
    }
    return this.#change(target, write, prepare)
  }

  /**
   * Changes a mapping. Undefined fields keep their value.
   * @param index index in the guest's list
   * @throws {BerthError} the errors of `add`, and `not_found`
   */
  async update(target: Target, index: number, wanted: MappingChange): Promise<GuestRecord> {
    const { store } = this.context
    let listening: ReadonlySet<string> = new Set()
    const prepare = async ({ portMappings }: GuestRecord): Promise<void> => {
      const old = portMappings[index]
      const checked = old && checkPortMapping(changePortMapping(old, wanted))
      // Programs that listen on the host ports only matter if the mapping gets other host ports than before.
      if (checked && !isAtSameHostPorts(old, checked)) listening = await readListeningPorts([checked.protocol])
    }
    const write = (record: GuestRecord, freeing: Freeing): (() => void) => {
      const position = store.getPosition(record.uuid, index)
      const old = record.portMappings[index]!
      store.removeMapping(record.uuid, position) // removed first, because the new mapping can use the same ports
      this.#put({ record, replaced: old, position, listening }, checkPortMapping(changePortMapping(old, wanted)))
      return freeing(position, old)
    }
    return this.#change(target, write, prepare)
  }

  /** Removes a mapping. @throws {BerthError} `not_found`, and the errors of `changeGuest` */
  async remove(target: Target, index: number): Promise<GuestRecord> {
    const { store } = this.context
    return this.#change(target, (record, freeing) => {
      const position = store.getPosition(record.uuid, index)
      store.removeMapping(record.uuid, position)
      return freeing(position, record.portMappings[index]!)
    })
  }

  /** Finds ports that are free now, but reserves none. @throws {BerthError} `invalid_field`, `resource_exhausted` */
  async findFree({ protocol, hostIp, count }: FreePortsQuery): Promise<number[]> {
    const { ports } = this.context
    ports.checkHostIp(hostIp)
    return ports.openChoice(await readListeningPorts([protocol])).pick({ protocol, hostIp, count })
  }

  #change(
    target: Target,
    write: (record: GuestRecord, freeing: Freeing) => () => void,
    prepare?: SettingChange['prepare'],
  ): Promise<GuestRecord> {
    const { config, network, ports } = this.context
    let release = (): void => undefined
    const freeing: Freeing = (position, old) => {
      release = ports.hold(spanOf(old))
      return () => {
        release()
        this.#putBack(target.uuid, position, old)
      }
    }
    return changeGuest(this.context, target, {
      write: (record) => write(record, freeing),
      apply: (record) => network.attach(networkOf(record, config), ['rules']),
      ended: () => release(),
      ...(prepare && { prepare }),
    })
  }

  #put({ record, replaced, position, listening }: Place, wanted: CheckedMapping): void {
    const { store } = this.context
    // An unchanged host port is not checked. It stays even if the host's addresses or permitted ports have changed.
    if (replaced && isAtSameHostPorts(replaced, wanted))
      return store.putMapping(record.uuid, position, mappingAt(wanted, replaced.hostPort))
    const hasIpv6 = record.ipv6Addresses.length > 0
    const others = record.portMappings.filter((mapping) => mapping !== replaced)
    const order = { wanted: [wanted], listening, hasIpv6, others, ...(replaced && { replaced }) }
    const [mapping] = this.context.ports.reserve(order)
    store.putMapping(record.uuid, position, mapping!)
  }

  #putBack(uuid: string, position: number, mapping: PortMapping): void {
    const { store } = this.context
    store.removeMapping(uuid, position)
    store.putMapping(uuid, position, mapping) // the ports are free, because nobody else could reserve them
  }
}

function isAtSameHostPorts(old: PortMapping, wanted: CheckedMapping): boolean {
  const [had, has] = [spanOf(old), spanOf(wanted)]
  const sameAddress = had.protocol === has.protocol && had.hostIp === has.hostIp
  return sameAddress && had.first === has.first && had.last === has.last
}
