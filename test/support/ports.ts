import { randomInt } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isThere } from '../../agent/host/process/proc.js'

/** Directory with a file for each assigned port. The file contains the pid of the process that has the port. */
const claims = join(tmpdir(), 'btest-ports')
const given = new Set<number>()
process.on('exit', () => given.forEach((port) => rmSync(join(claims, `${port}`), { force: true })))

/**
 * Returns a loopback port without a listener. All calls in all test processes get different ports. The ports are
 * outside of the range that the kernel assigns, and above 10080, because browsers refuse some lower ports.
 */
export async function freePort(): Promise<number> {
  mkdirSync(claims, { recursive: true })
  for (;;) {
    const port = randomInt(10_100, 20_000)
    if (!claim(port)) continue
    given.add(port)
    if (await isFree(port)) return port
  }
}

function claim(port: number): boolean {
  const path = join(claims, `${port}`)
  try {
    writeFileSync(path, `${process.pid}`, { flag: 'wx' })
    return true
  } catch {
    if (!isHeld(path)) rmSync(path, { force: true }) // left by a killed process
    return false
  }
}

function isHeld(path: string): boolean {
  try {
    return isThere(Number(readFileSync(path, 'utf8')))
  } catch {
    return false // another process has released the port in the meantime
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer().once('error', () => done(false))
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)))
  })
}
