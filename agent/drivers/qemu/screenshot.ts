import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import type { QmpConnection } from './qmp/connection.js'

const mostBytes = 8 * 1024 ** 2
const timeoutMs = 10_000

/**
 * Returns a screenshot of the guest as a PNG. QEMU writes it into a prepared file in a directory of root, in which QEMU
 * cannot create other files. The content is untrusted; only its first bytes are checked.
 * @throws {BerthError} `machine_refused`, `machine_timeout`, `screenshot_failed`
 */
export async function takeScreenshot(monitor: QmpConnection, work: string, userId: number): Promise<Buffer> {
  const path = join(work, 'screen.png')
  await rm(path, { force: true })
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(path, flags, 0o600)
  try {
    await file.chown(userId, userId)
    // The path is relative to QEMU's working directory, because QEMU cannot traverse the directories above.
    await monitor.execute('screendump', { filename: 'screen.png', format: 'png' }, timeoutMs)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(mostBytes), 0, mostBytes, 0)
    return checkPng(buffer.subarray(0, bytesRead))
  } finally {
    await file.close()
    await rm(path, { force: true })
  }
}

function checkPng(image: Buffer): Buffer {
  if (image.length < mostBytes && image.subarray(0, 8).toString('hex') === '89504e470d0a1a0a') return image
  throw new BerthError('internal', 'screenshot_failed', 'QEMU did not create an image of the screen')
}
