import type { SealedAnswer } from '../../gateways/sealed-answer.js'

/**
 * States of a rotation of the CA:
 * - `distributing`: gateways and hosts learn to trust the new CA besides the old one.
 * - `reissuing`: hosts get certificates of the new CA.
 * - `ready`: nothing is left to do until the operator ends the rotation.
 * - `ending`: hosts end their trust in the old CA. New hosts join with the new one.
 * - `ended`: gateways have ended their trust in the old CA.
 * - `canceled`: the new CA is no longer trusted.
 */
export const rotationStates = ['distributing', 'reissuing', 'ready', 'ending', 'ended', 'canceled'] as const
export type RotationState = (typeof rotationStates)[number]

/** The last rotation, as the store contains it. */
export interface Rotation {
  readonly id: string
  readonly state: RotationState
  /** Fingerprints of the old and the new CA. */
  readonly from: string
  readonly to: string
  /** Certificate of the new CA, in PEM. */
  readonly toPem: string
  /** Key and certificate of the new CA, encrypted for each gateway, by id of the gateway. Empty after the end. */
  readonly keys: Readonly<Record<string, SealedAnswer>>
  /** The last state that each gateway has applied, by id of the gateway. */
  readonly applied: Readonly<Record<string, RotationState>>
  /** True: the operator wants the rotation to end as soon as it is ready. */
  readonly finishing: boolean
  /** Ids of hosts for which the rotation does not wait. */
  readonly excluded: readonly string[]
  readonly startedBy: string
  readonly startedAtMs: number
  /** End of the rotation in ms since 1970. 0: it has not ended. */
  readonly endedAtMs: number
}

/** Facts about a host from which the next step of a rotation is planned. */
export interface RotationHost {
  readonly id: string
  readonly name: string
  /** False: the host has no certificate yet, or no longer. */
  readonly joined: boolean
  /** Fingerprint of the CA of the host's certificate. undefined: the old one, since the host was in no rotation yet. */
  readonly issuer: string | undefined
  /** Fingerprints of the CAs that the host has confirmed to trust. undefined: it has confirmed none. */
  readonly trusted: readonly string[] | undefined
  /** True while another version of the agent is being installed. */
  readonly upgrading: boolean
}

/** A gateway for which a rotation waits. */
export interface RotationGateway {
  readonly id: string
  readonly name: string
}

export function isActive(rotation: Rotation | null | undefined): rotation is Rotation {
  return Boolean(rotation && rotation.state !== 'ended' && rotation.state !== 'canceled')
}
