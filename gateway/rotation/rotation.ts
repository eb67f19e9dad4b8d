import type { SealedAnswer } from '../gateways/sealed-answer.js'
import type { FleetAuthority } from '../pki/fleet-authority.js'
import type { Lease } from '../store/lease.js'

/**
 * States of a rotation of the CA:
 * - `distributing`: gateways and hosts begin to trust the new CA besides the old one.
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
  readonly toPem: string
  /** Key and certificate of the new CA, encrypted for each gateway, by id of the gateway. Empty after the end. */
  readonly keys: Readonly<Record<string, SealedAnswer>>
  /** The last state that each gateway has applied, by id of the gateway. */
  readonly applied: Readonly<Record<string, RotationState>>
  /** True: the operator has asked to end the rotation. The end begins as soon as the state is `ready`. */
  readonly finishing: boolean
  /** Ids of hosts for which the rotation does not wait. */
  readonly excluded: readonly string[]
  readonly startedBy: string
  readonly startedAtMs: number
  /** End of the rotation in ms since 1970. 0: it has not ended. */
  readonly endedAtMs: number
}

/** Facts about a host. They determine the next step of a rotation. */
export interface RotationHost {
  readonly id: string
  readonly name: string
  /** False: the host has no certificate, because it has not joined or has been removed. */
  readonly joined: boolean
  /** Fingerprint of the CA that issued the host's certificate. undefined: the old CA, before any rotation. */
  readonly issuer: string | undefined
  /** Fingerprints of the CAs that the host has confirmed to trust. undefined: the host has confirmed none. */
  readonly trusted: readonly string[] | undefined
  /** True while another version of the agent is being installed. */
  readonly upgrading: boolean
}

/** A gateway for which a rotation waits. */
export interface RotationGateway {
  readonly id: string
  readonly name: string
}

export interface RotationFacts {
  readonly hosts: readonly RotationHost[]
  readonly gateways: readonly RotationGateway[]
  readonly nowMs: number
}

/** Replaces the CA of the fleet. */
export interface FleetRotation {
  readonly authority: Pick<FleetAuthority, 'first' | 'next'>
  /** The gateway that holds this lease advances the rotation. */
  readonly lease: Lease
  /** The last rotation; null: there was no rotation. Throws `store_unavailable` until the store has been read. */
  readonly current: Rotation | null
  /** Like `current`, but never throws. undefined: there was no rotation, or the store could not be read yet. */
  readonly known: Rotation | undefined
  facts(): RotationFacts
  /**
   * Begins to replace the CA. A repeated call with the same id changes nothing.
   * @throws {BerthError} `rotation_running`, `rotation_unsupported`, `clock_in_doubt`
   */
  begin(start: { readonly id: string; readonly startedBy: string }): Promise<Rotation>
  /** Ends the rotation when all hosts except the given ones have confirmed. @throws {BerthError} `invalid_state` */
  finish(withoutHosts: readonly string[]): Promise<Rotation>
  /** @throws {BerthError} `invalid_state` */
  cancel(): Promise<Rotation>
}

export function isActive(rotation: Rotation | null | undefined): rotation is Rotation {
  return Boolean(rotation && rotation.state !== 'ended' && rotation.state !== 'canceled')
}
