import { conflict } from '../../shared/errors.js'
import {
  isActive,
  type Rotation,
  type RotationFacts,
  type RotationGateway,
  type RotationHost,
  type RotationState,
} from './rotation.js'

/** The next step of a host: it must trust exactly these CAs, or needs a certificate of the new CA. */
export type HostStep = { readonly kind: 'trust'; readonly fingerprints: readonly string[] } | { readonly kind: 'renew' }

/** Plans the next state of a rotation. Returns `rotation` itself if its state stays the same. */
export function planRotation(rotation: Rotation, facts: RotationFacts): Rotation {
  const isWaiting =
    hostsAwaited(rotation, facts.hosts).length > 0 || gatewaysAwaited(rotation, facts.gateways).length > 0
  if (!isActive(rotation) || isWaiting) return rotation
  const state = nextState(rotation)
  if (state === undefined) return rotation
  return state === 'ended' ? { ...rotation, state, keys: {}, endedAtMs: facts.nowMs } : { ...rotation, state }
}

function nextState({ state, finishing }: Rotation): RotationState | undefined {
  if (state === 'distributing') return 'reissuing'
  if (state === 'reissuing') return 'ready'
  if (state === 'ready') return finishing ? 'ending' : undefined
  return 'ended'
}

/** Returns the hosts whose confirmation the rotation needs before it can continue. */
export function hostsAwaited(rotation: Rotation, hosts: readonly RotationHost[]): RotationHost[] {
  return hostsMissing(rotation, hosts).filter(({ id }) => !rotation.excluded.includes(id))
}

/** Returns the hosts that have not confirmed the present state. In the state `ended`, these hosts must join again. */
export function hostsMissing(rotation: Rotation, hosts: readonly RotationHost[]): RotationHost[] {
  if (rotation.state === 'canceled') return []
  if (rotation.state === 'ended')
    return hosts.filter(({ id, issuer }) => rotation.excluded.includes(id) && issuer !== rotation.to)
  return hosts.filter((host) => host.joined && !hasConfirmed(rotation, host))
}

function hasConfirmed({ state, to }: Rotation, { issuer, trusted = [], upgrading }: RotationHost): boolean {
  if (state === 'distributing') return trusted.includes(to)
  const isReissued = issuer === to && trusted.includes(to)
  // The state `ending` changes the CA of the join endpoint. Upgrades must end earlier, because they download from it.
  return state === 'ending' ? isReissued && trusted.length === 1 : isReissued && !upgrading
}

/** Returns the gateways that have not applied the present state. */
export function gatewaysAwaited(rotation: Rotation, gateways: readonly RotationGateway[]): RotationGateway[] {
  return isActive(rotation) ? gateways.filter(({ id }) => rotation.applied[id] !== rotation.state) : []
}

/**
 * Plans the next step of a connected host. undefined: no step is due.
 * @param present fingerprint of the fleet's CA if no rotation is active
 */
export function planHostStep(
  rotation: Rotation | null,
  { issuer, trusted }: Partial<Pick<RotationHost, 'issuer' | 'trusted'>>,
  present: string,
): HostStep | undefined {
  if (!isActive(rotation)) return trusted === undefined ? undefined : trustOnly([present], trusted)
  const { state, from, to } = rotation
  if (state === 'ending' && issuer === to) return trustOnly([to], trusted)
  if (!trusted?.includes(to)) return { kind: 'trust', fingerprints: [from, to] }
  return state !== 'distributing' && issuer !== to ? { kind: 'renew' } : undefined
}

function trustOnly(fingerprints: readonly string[], trusted: readonly string[] = []): HostStep | undefined {
  const isDone = trusted.length === fingerprints.length && fingerprints.every((one) => trusted.includes(one))
  return isDone ? undefined : { kind: 'trust', fingerprints }
}

/** @throws {BerthError} `rotation_running` */
export function refuseSecondRotation(rotation: Rotation | null): void {
  if (isActive(rotation))
    throw conflict(
      'rotation_running',
      'the certificate authority is already being replaced: finish or cancel this replacement first',
    )
}

/** Allows the rotation to end without waiting for the given hosts. @throws {BerthError} `invalid_state` */
export function planFinish(rotation: Rotation | null, withoutHosts: readonly string[]): Rotation {
  if (!isActive(rotation)) throw noRotation()
  const excluded = [...new Set([...rotation.excluded, ...withoutHosts])]
  return { ...rotation, finishing: true, excluded }
}

/** @throws {BerthError} `invalid_state` if certificates of the new CA were possibly issued */
export function planCancel(rotation: Rotation | null, nowMs: number): Rotation {
  if (!isActive(rotation)) throw noRotation()
  if (rotation.state !== 'distributing')
    throw conflict(
      'invalid_state',
      'hosts already have certificates of the new certificate authority: finish this rotation, then begin another one',
    )
  return { ...rotation, state: 'canceled', keys: {}, endedAtMs: nowMs }
}

const noRotation = () => conflict('invalid_state', 'the certificate authority is not being replaced')
