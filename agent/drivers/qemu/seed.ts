import { open } from 'node:fs/promises'
import { planIso } from './iso/plan-iso.js'
import type { Seed } from './plan-seed.js'

/** Size of the CD in bytes. A customer's user data has at most 256 KiB, and a third more in base64. */
const seedBytes = 1024 * 1024

/**
 * Writes a CD in place and with a constant size. A running guest has the file open, and reads the new content when it
 * reboots.
 */
export async function writeSeed({ label, files }: Seed, path: string): Promise<void> {
  const iso = planIso(label, files)
  if (iso.length > seedBytes)
    throw new Error(`the first-boot CD has ${iso.length} bytes, but must have at most ${seedBytes}`)
  const made = await open(path, 'a', 0o600)
  await made.close()
  const whole = await open(path, 'r+')
  try {
    await whole.write(Buffer.concat([iso, Buffer.alloc(seedBytes - iso.length)]), 0, seedBytes, 0)
  } finally {
    await whole.close()
  }
}
