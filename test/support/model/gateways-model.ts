import { planLease } from '../../../gateway/store/plan-lease.js'
import { planMaster } from '../../../gateway/store/sentinels/plan-master.js'
import { judgeEpoch } from '../../../shared/fence.js'
import type { Model } from './explore.js'

/*
 * Model of two gateways that take a lease in a replicated store and then call an agent. Each take-over of the lease
 * gets a higher number, its epoch. At any point, a gateway may be paused or a call delayed. The clock of the store may
 * differ from that of a gateway. The product's own functions make the decisions.
 *
 * Assumption: only one Redis server fails at a time. Before the next server fails, it has copied its master's data.
 */

/** Faults that can be built into the model. The exploration of the model must find each fault. */
export const modelFaults = [
  'none',
  'writes are not confirmed by a replica',
  'the agent does not compare epochs',
  'the agent forgets epochs when it restarts',
  'a take-over does not increase the epoch',
] as const
export type ModelFault = (typeof modelFaults)[number]

/** Data of a Redis server. `offset` is the number of writes. */
interface Data {
  readonly holder: number | null
  readonly counter: number
  readonly offset: number
}

interface Gateway {
  /** Index of the Redis server to which the gateway is connected. */
  readonly server: number
  /** True while the gateway holds a confirmed lease that is still valid by the gateway's own clock. */
  readonly held: boolean
  readonly epoch: number | null
  readonly unsure: boolean
  /** An attempt to take the lease. It waits until a replica has confirmed the write. */
  readonly pending: { readonly offset: number; readonly epoch: number } | null
}

interface Call {
  readonly gateway: number
  readonly epoch: number
}

export interface GatewaysState {
  readonly servers: readonly Data[]
  /** Index of the server from which each server copies its data. null: the server is a master. */
  readonly follows: readonly (number | null)[]
  readonly named: readonly number[]
  /** Index of a master that is cut off from other servers and Sentinels. Gateways may still reach this master. */
  readonly isolated: number | null
  readonly failovers: number
  readonly gateways: readonly Gateway[]
  readonly calls: readonly Call[]
  /** The highest epoch (number of a take-over of the lease) in the agent's journal. */
  readonly highest: number
  /** The highest epoch (number of a take-over of the lease) of an acknowledged lease. */
  readonly acknowledged: number
  /** For each epoch (number of a take-over of the lease): index of the gateway whose call the agent accepted. */
  readonly actors: Readonly<Record<number, number>>
  /** Epoch (number of a take-over of the lease) of the last call that the agent accepted. */
  readonly lastActed: number
  readonly problem: string
}

export interface ModelBounds {
  readonly epochs: number
  readonly writes: number
  readonly failovers: number
  readonly calls: number
}

type Steps = Generator<readonly [string, GatewaysState]>

export function gatewaysModel(fault: ModelFault, bounds: ModelBounds): Model<GatewaysState> {
  const empty: Data = { holder: null, counter: 0, offset: 0 }
  const idle: Gateway = { server: 0, held: false, epoch: null, unsure: false, pending: null }
  const initial: GatewaysState = {
    servers: [empty, empty, empty],
    follows: [null, 0, 0],
    named: [0, 0, 0],
    isolated: null,
    failovers: 0,
    gateways: [idle, idle],
    calls: [],
    highest: 0,
    acknowledged: 0,
    actors: {},
    lastActed: 0,
    problem: '',
  }
  return {
    initial,
    check: ({ problem }) => problem,
    *next(state) {
      for (const index of [0, 1]) yield* gatewaySteps(state, index, fault, bounds)
      yield* serverSteps(state, bounds)
      yield* agentSteps(state, fault)
    },
  }
}

function* gatewaySteps(state: GatewaysState, index: number, fault: ModelFault, bounds: ModelBounds): Steps {
  const gateway = state.gateways[index]!
  const name = `gateway ${index}`
  if (gateway.pending) {
    if (isConfirmed(state, gateway, fault)) yield [`${name}: the lease is confirmed`, confirm(state, index)]
    yield [`${name}: no confirmation`, setGateway(state, index, { pending: null })]
    return
  }
  const taken = take(state, index, fault)
  if (taken && isWithin(taken, bounds)) yield [`${name}: takes the lease`, taken]
  if (gateway.held) {
    yield [`${name}: the lease ends`, setGateway(state, index, { held: false })]
    const isFull = state.calls.length >= bounds.calls
    if (!isFull)
      yield [
        `${name}: calls the agent`,
        { ...state, calls: sortCalls([...state.calls, { gateway: index, epoch: gateway.epoch! }]) },
      ]
  }
  const master = namedMaster(state)
  if (master !== undefined && master !== gateway.server && state.follows[master] === null)
    yield [`${name}: connects to server ${master}`, setGateway(state, index, { server: master })]
}

function isWithin({ servers }: GatewaysState, { epochs, writes }: ModelBounds): boolean {
  return servers.every(({ counter, offset }) => counter <= epochs && offset <= writes)
}

/** @returns undefined if the server is a replica, which refuses writes */
function take(state: GatewaysState, index: number, fault: ModelFault): GatewaysState | undefined {
  const gateway = state.gateways[index]!
  const { server } = gateway
  const { holder, counter, offset } = state.servers[server]!
  if (state.follows[server] !== null) return undefined
  const claim = { holder: `${index}`, epoch: gateway.unsure ? undefined : (gateway.epoch ?? undefined), above: 0 }
  const grant = planLease({ holder: holder === null ? null : `${holder}`, counter }, claim)
  if (!grant) return setGateway(state, index, { held: false, epoch: null, unsure: false })
  const epoch = fault === 'a take-over does not increase the epoch' ? Math.max(1, counter) : grant.epoch
  const data = { holder: index, counter: Math.max(counter, epoch), offset: offset + 1 }
  const pending = { offset: data.offset, epoch }
  return setGateway(setServer(state, server, data), index, { unsure: true, pending })
}

function isConfirmed(state: GatewaysState, { server, pending }: Gateway, fault: ModelFault): boolean {
  if (fault === 'writes are not confirmed by a replica') return true
  if (state.follows[server] !== null) return false
  return state.servers.some(({ offset }, other) => state.follows[other] === server && offset >= pending!.offset)
}

function confirm(state: GatewaysState, index: number): GatewaysState {
  const { epoch } = state.gateways[index]!.pending!
  const confirmed = setGateway(state, index, { held: true, epoch, unsure: false, pending: null })
  return { ...confirmed, acknowledged: Math.max(state.acknowledged, epoch) }
}

function namedMaster({ named }: GatewaysState): number | undefined {
  return planMaster(named.map((port) => ({ host: 'redis', port })))?.port
}

function* serverSteps(state: GatewaysState, bounds: ModelBounds): Steps {
  for (const [index, source] of state.follows.entries()) {
    const data = state.servers[index]!
    if (source === null) {
      // The lease expires by the clock of the store. The master deletes the key, and its replicas copy the deletion.
      const expired = setServer(state, index, { ...data, holder: null, offset: data.offset + 1 })
      if (data.holder !== null && isWithin(expired, bounds)) yield [`server ${index}: the lease expires`, expired]
    } else if (source !== state.isolated && data.offset !== state.servers[source]!.offset)
      yield [`server ${index}: copies from server ${source}`, setServer(state, index, state.servers[source]!)]
  }
  yield* failoverSteps(state, bounds)
}

function* failoverSteps(state: GatewaysState, bounds: ModelBounds): Steps {
  const masters = state.follows.flatMap((source, index) => (source === null ? [index] : []))
  if (state.isolated !== null) yield* recoverySteps(state, state.isolated, masters)
  else if (masters.length === 1 && state.failovers < bounds.failovers)
    yield [`server ${masters[0]}: is cut off`, { ...state, isolated: masters[0]! }]
}

function* recoverySteps(state: GatewaysState, former: number, masters: readonly number[]): Steps {
  const master = masters.find((one) => one !== former)
  if (master === undefined) {
    yield ['the Sentinels choose another master', checkAcknowledged(failOver(state, former))]
    return
  }
  for (const [index, one] of state.named.entries())
    if (one === former) yield [`Sentinel ${index}: learns of the new master`, rename(state, index, master)]
  if (!state.named.includes(former)) yield [`server ${former}: is back as a replica`, rejoin(state, former, master)]
}

/** The Sentinels choose the replica with the most data. It becomes the master that the other replica follows. */
function failOver(state: GatewaysState, former: number): GatewaysState {
  const replicas = [0, 1, 2].filter((index) => index !== former)
  const [master = 0, other = 0] = replicas.sort((a, b) => state.servers[b]!.offset - state.servers[a]!.offset)
  const follows = state.follows.map((source, index) => (index === master ? null : index === other ? master : source))
  return rename({ ...state, follows, failovers: state.failovers + 1 }, 0, master)
}

/** Checks that no acknowledged lease is lost. The new master must have at least the highest acknowledged epoch. */
function checkAcknowledged(state: GatewaysState): GatewaysState {
  const { counter } = state.servers[state.named[0]!]!
  if (counter >= state.acknowledged) return state
  return { ...state, problem: `the acknowledged epoch ${state.acknowledged} was lost` }
}

function rename(state: GatewaysState, sentinel: number, master: number): GatewaysState {
  return { ...state, named: state.named.map((one, index) => (index === sentinel ? master : one)) }
}

/**
 * Turns the old master into a replica. In the transaction that does this, Sentinel also closes all connections of this
 * server (CLIENT KILL TYPE normal). Gateways therefore no longer wait for the confirmation of a write to this server.
 */
function rejoin(state: GatewaysState, former: number, master: number): GatewaysState {
  const follows = state.follows.map((source, index) => (index === former ? master : source))
  const gateways = state.gateways.map((one) => (one.server === former ? { ...one, pending: null } : one))
  return setServer({ ...state, follows, gateways, isolated: null }, former, state.servers[master]!)
}

function* agentSteps(state: GatewaysState, fault: ModelFault): Steps {
  for (const [index, call] of state.calls.entries()) {
    const calls = state.calls.filter((_, other) => other !== index)
    yield [`the agent gets epoch ${call.epoch} of gateway ${call.gateway}`, receive({ ...state, calls }, call, fault)]
  }
  if (fault === 'the agent forgets epochs when it restarts') yield ['the agent restarts', { ...state, highest: 0 }]
}

function receive(state: GatewaysState, { gateway, epoch }: Call, fault: ModelFault): GatewaysState {
  const verdict = judgeEpoch(state.highest, epoch)
  if (verdict === 'stale' && fault !== 'the agent does not compare epochs') return state
  const other = state.actors[epoch] ?? gateway
  const problem =
    other !== gateway
      ? `both gateways acted with epoch ${epoch}`
      : epoch < state.lastActed
        ? `a stale holder acted with epoch ${epoch} after epoch ${state.lastActed}`
        : ''
  const highest = Math.max(state.highest, epoch)
  return { ...state, highest, lastActed: epoch, actors: { ...state.actors, [epoch]: gateway }, problem }
}

function setGateway(state: GatewaysState, index: number, change: Partial<Gateway>): GatewaysState {
  return { ...state, gateways: state.gateways.map((one, other) => (other === index ? { ...one, ...change } : one)) }
}

function setServer(state: GatewaysState, index: number, data: Data): GatewaysState {
  return { ...state, servers: state.servers.map((one, other) => (other === index ? data : one)) }
}

/** Sorts calls, so that equal sets of calls are equal states. */
function sortCalls(calls: readonly Call[]): readonly Call[] {
  return [...calls].sort((a, b) => a.epoch - b.epoch || a.gateway - b.gateway)
}
