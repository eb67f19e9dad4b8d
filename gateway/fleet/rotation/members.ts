import type { KeyObject } from 'node:crypto'
import { conflict } from '../../../shared/errors.js'
import { openAnswer, sealAnswer, type SealedAnswer } from '../../gateways/sealed-answer.js'
import type { Authority } from '../../pki/authority.js'
import type { HostView } from '../contract.js'
import type { Rotation } from '../../rotation/rotation.js'

/** A gateway of the fleet. Secrets for this gateway are encrypted with its public key. */
export interface RotationMember {
  readonly id: string
  readonly name: string
  /** X25519 key: SubjectPublicKeyInfo (DER) in base64url. undefined: the gateway has an earlier version. */
  readonly publicKey: string | undefined
}

export interface RotationMembers {
  readonly ownId: string
  /** Private key that belongs to the public key of this gateway. */
  readonly privateKey: KeyObject
  /** All gateways that have joined, and this one. */
  members(): readonly RotationMember[]
}

/**
 * Encrypts key and certificate of a CA for each gateway that is not in `known`. @returns the texts, by gateway id
 */
export function sealKeys(
  { privateKeyPem, caPem }: Authority,
  members: readonly RotationMember[],
  known: Rotation['keys'],
): Record<string, SealedAnswer> {
  const missing = members.filter(({ id, publicKey }) => publicKey && !known[id])
  return Object.fromEntries(missing.map(({ id, publicKey }) => [id, sealAnswer(publicKey!, privateKeyPem + caPem)]))
}

/** Decrypts key and certificate of a CA. @returns undefined if they have not been encrypted for this gateway yet */
export function openKey({ ownId, privateKey }: RotationMembers, keys: Rotation['keys']): string | undefined {
  const sealed = keys[ownId]
  return sealed && openAnswer(privateKey, sealed)
}

/** @throws {BerthError} `rotation_unsupported` if hosts or gateways have versions that do not support the rotation */
export function refuseUnsupported(hosts: readonly HostView[], members: readonly RotationMember[]): void {
  const oldHosts = hosts.filter(({ description }) => description && !description.features.includes('rotate-ca'))
  const oldGateways = members.filter(({ publicKey }) => !publicKey)
  const names = [...oldHosts.map(({ name }) => `host ${name}`), ...oldGateways.map(({ name }) => `gateway ${name}`)]
  if (names.length > 0)
    throw conflict(
      'rotation_unsupported',
      `earlier versions of Berth cannot replace the certificate authority: first upgrade ${names.join(', ')}`,
    )
}
