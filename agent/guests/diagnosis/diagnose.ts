import { isIPv6 } from 'node:net'
import { KeyedSingleFlight } from '../../../shared/async/single-flight.js'
import { BerthError } from '../../../shared/errors.js'
import { findDropping } from '../../../shared/firewall-verdict.js'
import type { GuestProbe } from '../../host/guest/guest-probe.js'
import type { ListeningSocket } from '../../host/net/listening-ports.js'
import type { HostFacts } from '../../network/addresses/host-facts.js'
import type { GuestContext } from '../context.js'
import { blocksOf, isThrottled, type Block } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import {
  planDiagnosis,
  triesInside,
  triesThrough,
  type ConnectionFacts,
  type ConnectionStep,
} from './plan-diagnosis.js'

export interface DiagnosisRequest {
  readonly uuid: string
  /** Port of the guest that cannot be reached. */
  readonly port: number
  /** Address of the client that cannot connect; empty if it is not known. */
  readonly source: string
}

export interface Diagnosis {
  readonly steps: readonly ConnectionStep[]
  /** Address at which the port is reachable from outside; empty means every address of the host. */
  readonly address: string
  /** Port at `address`; 0 means that the guest's port is not reachable. */
  readonly outsidePort: number
  /** Ports on which the guest listens. Only set if nothing listens on the requested port. */
  readonly listeningPorts: readonly number[]
  /** Addresses of all interfaces of the host except the loopback. */
  readonly hostAddresses: readonly string[]
}

interface Way {
  /** Address to which the agent tries to connect. */
  readonly address: string
  /** Address to show to the guest's owner. Empty: the port is mapped at all addresses of the host. */
  readonly told: string
  readonly port: number
  readonly isThere: boolean
}

const maxPortsTold = 20
const maxAddresses = 1000
/** Maximum number of parallel diagnoses. Each reads all guests of the host. */
const mostLooks = 8
const mostLooksOfGuest = 2

export interface DiagnosisHost {
  readonly probe: GuestProbe
  readonly facts: Pick<HostFacts, 'listAddresses'>
}

/** Finds out why a port of a guest cannot be reached. Sends nothing to the guest except two connection attempts. */
export class ConnectionDiagnosis {
  /** Running diagnoses by request. Callers with the same request share one diagnosis. */
  readonly #running = new KeyedSingleFlight<string, Diagnosis>()

  constructor(
    private readonly context: Pick<GuestContext, 'store' | 'machines'>,
    private readonly host: DiagnosisHost,
  ) {}

  /** Runs a diagnosis. @throws {BerthError} `not_found`, `rate_limited` */
  run(request: DiagnosisRequest): Promise<Diagnosis> {
    const record = this.context.store.get(request.uuid)
    const key = `${record.uuid} ${request.port} ${request.source}`
    if (!this.#running.has(key)) this.#refuseCrowd(record.uuid)
    return this.#running.run(key, () => this.#look(record, request))
  }

  #refuseCrowd(uuid: string): void {
    const { keys } = this.#running
    const ofGuest = keys.filter((key) => key.startsWith(uuid)).length
    if (keys.length < mostLooks && ofGuest < mostLooksOfGuest) return
    throw new BerthError('exhausted', 'rate_limited', 'another check is running: try again in a few seconds')
  }

  async #look(record: GuestRecord, request: DiagnosisRequest): Promise<Diagnosis> {
    const { port } = request
    const { facts: host } = this.host
    const way = findWay(record, port, host)
    const facts = await this.#try(await this.#readFacts(record, request, way), record, way)
    const steps = planDiagnosis(facts)
    const nothing = steps.some(({ code }) => code === 'nothing_listens')
    return {
      steps,
      hostAddresses: [...host.listAddresses('ipv4'), ...host.listAddresses('ipv6')].slice(0, maxAddresses),
      address: way?.told ?? '',
      outsidePort: way?.port ?? 0,
      listeningPorts: nothing ? portsOf(facts.listeners ?? []) : [],
    }
  }

  async #readFacts(
    record: GuestRecord,
    { port, source }: DiagnosisRequest,
    way: Way | undefined,
  ): Promise<ConnectionFacts> {
    const pid = await this.#findPid(record)
    const isContainer = record.spec.virtualization === 'lxc'
    const listeners = pid !== undefined && isContainer ? await this.host.probe.listListeners(pid) : undefined
    const drops = (address: string): boolean => isDropped(record, address, port)
    const { gateway } = this.context.machines.of(record).nic
    const blockedBy = blockOf(record)
    return {
      port,
      throttled: isThrottled(record),
      listeners,
      outside: way,
      running: pid !== undefined && (!isContainer || listeners !== undefined),
      ...(blockedBy && { blockedBy }),
      // For a connection from the host to `way.address`, the kernel uses the same address as source (`hostOutside`).
      drops: { caller: drops(source), hostInside: drops(gateway), hostOutside: drops(way?.address ?? '') },
    }
  }

  async #findPid(record: GuestRecord): Promise<number | undefined> {
    const observed = await this.context.machines.driverOf(record).observe()
    return observed.find(({ uuid, state }) => uuid === record.uuid && state === 'running')?.pid
  }

  async #try(facts: ConnectionFacts, record: GuestRecord, way: Way | undefined): Promise<ConnectionFacts> {
    const { probe } = this.host
    const inside = triesInside(facts) ? await probe.connect(record.ipv4, facts.port) : undefined
    const known = { ...facts, inside }
    if (!way || !triesThrough(known)) return known
    return { ...known, through: await probe.connect(way.address, way.port) }
  }
}

/** Finds where the port is reachable from outside: the guest's own public address, or otherwise a mapping. */
function findWay(
  { publicIpv4s: [own], portMappings }: GuestRecord,
  port: number,
  facts: Pick<HostFacts, 'listAddresses'>,
): Way | undefined {
  if (own !== undefined) return { address: own, told: own, port, isThere: true }
  const mapping = portMappings.find(
    ({ protocol, containerPort, containerPortEnd }) =>
      protocol === 'tcp' && containerPort <= port && port <= containerPortEnd,
  )
  if (!mapping) return undefined
  const { hostIp, hostPort, containerPort } = mapping
  const addresses = facts.listAddresses(isIPv6(hostIp) ? 'ipv6' : 'ipv4')
  return {
    address: hostIp || (addresses[0] ?? ''),
    told: hostIp,
    port: hostPort + port - containerPort,
    isThere: hostIp === '' ? addresses.length > 0 : addresses.includes(hostIp),
  }
}

function isDropped({ firewall }: GuestRecord, source: string, port: number): boolean {
  const family = isIPv6(source) ? 'ipv6' : 'ipv4'
  return findDropping(firewall, { family, source, port }) !== undefined
}

const blockCodes = {
  suspended: 'suspended',
  expired: 'expired',
  traffic: 'traffic_used_up',
  security: 'stopped_for_abuse',
} as const satisfies Record<Block, ConnectionFacts['blockedBy']>

/** Returns the first reason why the guest is suspended. Abuse takes precedence over a used-up quota. */
function blockOf(record: GuestRecord): ConnectionFacts['blockedBy'] {
  const blocks = blocksOf(record)
  const first = (['suspended', 'expired', 'security', 'traffic'] as const).find((block) => blocks.includes(block))
  return first && blockCodes[first]
}

function portsOf(listeners: readonly ListeningSocket[]): number[] {
  const ports = new Set(listeners.filter(({ isReachable }) => isReachable).map(({ port }) => port))
  return [...ports].sort((a, b) => a - b).slice(0, maxPortsTold)
}
