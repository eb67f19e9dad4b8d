import { readFileSync } from 'node:fs'
import { replaceFile } from '../common/replace-file.js'
import type { Machine } from '../machine.js'
import { memoryMibOf, processorsOf } from './plan-command.js'

/** Parameters with which a running guest was started, and its present addresses. */
export interface LaunchRecord {
  readonly acceleration: 'kvm' | 'tcg'
  readonly processors: number
  readonly memoryMib: number
  /** Result of `hashDevices`. Undefined: an older version of the agent started the guest. */
  readonly devices?: string
  /** Addresses with which the guest's system is configured. */
  readonly ipv6Addresses: readonly string[]
  /** Addresses in the seed. The guest reads the seed when it reboots by itself. Undefined: equal to `ipv6Addresses`. */
  readonly nextIpv6Addresses?: readonly string[]
}

/** Returns the new record after the guest has rebooted and read its seed; undefined if its addresses stay the same. */
export function rebooted({ nextIpv6Addresses, ...launched }: LaunchRecord): LaunchRecord | undefined {
  return nextIpv6Addresses && { ...launched, ipv6Addresses: nextIpv6Addresses }
}

export async function writeLaunched(
  file: string,
  machine: Machine,
  { acceleration, devices, arrival }: Pick<LaunchRecord, 'acceleration' | 'devices'> & { arrival?: ArrivedLaunch },
): Promise<void> {
  const { limits, nic } = machine
  const launched: LaunchRecord = {
    acceleration,
    processors: arrival?.processors ?? processorsOf(limits),
    memoryMib: arrival?.memoryMib ?? memoryMibOf(limits),
    ipv6Addresses: arrival?.ipv6Addresses ?? nic.ipv6Addresses,
    ...(devices === undefined ? {} : { devices }),
  }
  await replaceLaunched(file, launched)
}

/** Parameters of a guest that was started on another host. */
export type ArrivedLaunch = Pick<LaunchRecord, 'processors' | 'memoryMib' | 'ipv6Addresses'>

export function replaceLaunched(file: string, launched: LaunchRecord): Promise<void> {
  return replaceFile(file, `${JSON.stringify(launched)}\n`, 0o600)
}

/** Reads the record. @returns undefined if it is missing or damaged */
export function findLaunched(file: string): LaunchRecord | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as LaunchRecord
  } catch {
    return undefined
  }
}
