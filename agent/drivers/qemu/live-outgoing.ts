import { once } from 'node:events'
import { chmodSync, chownSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { basename } from 'node:path'
import { BerthError } from '../../../shared/errors.js'
import { mostSlowedPercent, type MemoryLimits, type MemoryProgress } from '../contract.js'
import { isSoWithin } from '../common/wait.js'
import { readMigration, readRunState, stateOf } from './live-continue.js'
import type { RunPaths } from './paths.js'
import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'

const connectTimeoutMs = 10_000
/** Rate in bytes per second for transfers without a limit. If no rate is set, QEMU sends at most 128 MiB/s. */
const unlimitedRate = 10 * 1024 ** 3
/** Timeout in ms of requests while QEMU sends the last part, because QEMU holds the lock of its monitor meanwhile. */
const finishTimeoutMs = 120_000
/** Maximum time in ms from the end of the migration until QEMU is in the state `postmigrate`. */
const settleTimeoutMs = 5000

/** Lets QEMU send the guest's memory while the guest runs. @returns the connection on which QEMU sends */
export async function sendMemory(
  monitor: QmpConnection,
  { run, userId }: { readonly run: RunPaths; readonly userId: number },
  limits: MemoryLimits,
): Promise<Socket> {
  const server = await listenFor(run.outgoing, userId)
  try {
    const connected = once(server, 'connection', { signal: AbortSignal.timeout(connectTimeoutMs) })
    connected.catch(() => undefined) // `connected` is awaited below
    await begin(monitor, run, limits)
    const [socket] = (await connected) as [Socket]
    return socket
  } finally {
    server.close()
    rmSync(run.outgoing, { force: true })
  }
}

/** Opens a socket in QEMU's working directory, to which only the user of this QEMU can connect. */
async function listenFor(path: string, userId: number): Promise<Server> {
  rmSync(path, { force: true })
  const server = createServer()
  server.listen(path)
  await once(server, 'listening')
  chmodSync(path, 0o600)
  chownSync(path, userId, userId)
  return server
}

async function begin(monitor: QmpConnection, run: RunPaths, limits: MemoryLimits): Promise<void> {
  const { bandwidthMbps, maxDowntimeMs } = limits
  const capabilities = ['pause-before-switchover', 'auto-converge'].map((capability) => ({ capability, state: true }))
  await monitor.execute('migrate-set-capabilities', { capabilities })
  await monitor.execute('migrate-set-parameters', {
    'max-bandwidth': bandwidthMbps === 0 ? unlimitedRate : Math.ceil((bandwidthMbps * 1_000_000) / 8),
    'downtime-limit': maxDowntimeMs,
    'max-cpu-throttle': mostSlowedPercent,
  })
  await monitor.execute('migrate', { uri: `unix:${basename(run.outgoing)}` })
}

/** Reads how far QEMU has sent the guest's memory. @throws {BerthError} `memory_not_sent` if QEMU has given up */
export async function readMemoryProgress(monitor: QmpConnection): Promise<MemoryProgress> {
  const [migration, disks] = await Promise.all([readMigration(monitor), monitor.execute('query-blockstats')])
  const ram = objectOf(migration['ram'])
  return {
    state: phaseOf(statusOf(migration)),
    remainingBytes: numberOf(ram?.['remaining']),
    bytesPerSec: Math.round((numberOf(ram?.['mbps']) * 1_000_000) / 8),
    expectedDowntimeMs: numberOf(migration['expected-downtime']),
    slowedPercent: numberOf(migration['cpu-throttle-percentage']),
    writtenBytes: countWritten(disks),
  }
}

/** Sends the last part of the memory of a paused guest. @throws {BerthError} `memory_not_sent` if QEMU has given up */
export async function finishSending(monitor: QmpConnection, signal: AbortSignal): Promise<void> {
  await monitor.execute('migrate-continue', { state: 'pre-switchover' }, finishTimeoutMs)
  const isSent = async (): Promise<boolean> => statusOf(await readMigration(monitor, finishTimeoutMs)) === 'completed'
  await isSoWithin(isSent, { timeoutMs: finishTimeoutMs, signal })
  await checkPaused(monitor, 'sent')
}

/** @throws {BerthError} `memory_not_sent` if the guest is not paused, or if `sent` and not all its memory was sent */
export async function checkPaused(monitor: QmpConnection, state: 'paused' | 'sent'): Promise<void> {
  const expected = state === 'paused' ? 'finish-migrate' : 'postmigrate'
  const isSo = async (): Promise<boolean> => (await readRunState(monitor)) === expected
  if (await isSoWithin(isSo, { timeoutMs: state === 'paused' ? 0 : settleTimeoutMs })) return
  throw new BerthError(
    'conflict',
    'memory_not_sent',
    'the container continued to run before its memory was sent completely: the move cannot continue',
  )
}

/** Returns the state of a migration. @throws {BerthError} `memory_not_sent` */
function statusOf(migration: Readonly<Record<string, unknown>>): string {
  const status = stateOf(migration)
  const failed = ['failed', 'cancelled', 'cancelling', ''].includes(status)
  if (!failed) return status
  throw new BerthError('conflict', 'memory_not_sent', `sending the memory failed: ${reasonOf(migration)}`)
}

/** Adds up the bytes that the guest has written to its disks (`query-blockstats`). */
function countWritten(disks: unknown): number {
  const written = (Array.isArray(disks) ? disks : []).map((disk) =>
    numberOf(objectOf(objectOf(disk)?.['stats'])?.['wr_bytes']),
  )
  return written.reduce((sum, bytes) => sum + bytes, 0)
}

function phaseOf(status: string): MemoryProgress['state'] {
  if (status === 'pre-switchover') return 'paused'
  return status === 'completed' ? 'sent' : 'sending'
}

function reasonOf(migration: Readonly<Record<string, unknown>>): string {
  const reason = migration['error-desc']
  return typeof reason === 'string' ? reason.replaceAll(/\p{Cc}+/gu, ' ').slice(0, 200) : 'QEMU canceled the transfer'
}

function numberOf(value: unknown): number {
  return typeof value === 'number' && value >= 0 ? value : 0
}
