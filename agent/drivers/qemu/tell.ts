import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { systemVolumeOf, type Machine } from '../machine.js'
import { readInstance } from './disk.js'
import { readDiskSystem } from './disk-system.js'
import { openPassword } from './instance-password.js'
import { planConfigDrive } from './plan-config-drive.js'
import { planSeed, type Seed } from './plan-seed.js'
import { writeSeed } from './seed.js'

/**
 * Writes the CD with name, addresses and login. The guest's system reads the CD at its next boot, even if the guest
 * reboots by itself.
 * @param keyFile path of the host's key, which encrypts passwords
 */
export async function tellMachine(machine: Machine, { seed, keyFile }: TellPlaces): Promise<void> {
  await mkdir(dirname(seed), { recursive: true, mode: 0o700 })
  await writeSeed(await readSeed(machine, keyFile), seed)
}

export interface TellPlaces {
  readonly seed: string
  readonly keyFile: string
}

async function readSeed(machine: Machine, keyFile: string): Promise<Seed> {
  const volume = systemVolumeOf(machine)
  const instance = await readInstance(volume)
  const { os } = await readDiskSystem(volume)
  if (os !== 'windows') return { label: 'cidata', files: planSeed(machine, instance) }
  const password = await openPassword(keyFile, instance)
  const told = password === undefined ? instance : { ...instance, password }
  return { label: 'config-2', files: planConfigDrive(machine, told) }
}
