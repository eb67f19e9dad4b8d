import { randomInt } from 'node:crypto'
import { BerthError } from '../../../../shared/errors.js'
import { QmpConnection } from './connection.js'
import { objectOf } from './messages.js'

/** Time in ms within which a guest agent must answer the first command (`guest-sync-delimited`). */
const syncTimeoutMs = 1000
/** Makes the guest agent's parser discard an incomplete message of an earlier client. */
const flush = Buffer.from([0xff])

/**
 * Connects to the agent inside a guest. The guest controls the agent, so its answers are untrusted. Each call opens its
 * own connection and closes it at the end, because QEMU serves only one client at a time.
 * @throws {BerthError} `guest_agent_missing`, `machine_refused` with the guest's reason, `machine_timeout`
 */
export async function withGuestAgent<T>(
  path: string,
  work: (agent: GuestAgent) => Promise<T>,
  timeoutMs = syncTimeoutMs,
): Promise<T> {
  const connection = await QmpConnection.open({ path, timeoutMs: 5000, greets: false })
  try {
    await synchronize(connection, timeoutMs)
    return await work({ ask: (command, args, within) => connection.execute(command, args, within) })
  } finally {
    connection.close()
  }
}

export interface GuestAgent {
  ask(command: string, args?: Readonly<Record<string, unknown>>, timeoutMs?: number): Promise<unknown>
}

async function synchronize(connection: QmpConnection, timeoutMs: number): Promise<void> {
  const id = randomInt(1 << 30)
  connection.write(flush)
  const answer = await connection.execute('guest-sync-delimited', { id }, timeoutMs).catch((cause: unknown) => {
    throw missing(cause)
  })
  if (answer !== id) throw missing(new Error('the guest agent sent an answer that does not belong to the request'))
}

function missing(cause: unknown): BerthError {
  return new BerthError('conflict', 'guest_agent_missing', 'the guest agent is not responding', { cause })
}

const pollMs = 20

/**
 * Runs a program in the guest until it ends, and discards its output.
 * @throws {BerthError} `guest_refused` if it fails
 */
export async function runInGuest(
  agent: GuestAgent,
  path: string,
  args: readonly string[],
  timeoutMs = 5000,
): Promise<void> {
  const started = objectOf(await agent.ask('guest-exec', { path, arg: args, 'capture-output': false }))
  const deadline = performance.now() + timeoutMs
  while (performance.now() < deadline) {
    const status = objectOf(await agent.ask('guest-exec-status', { pid: started?.['pid'] }))
    if (status?.['exited'] === true) return checkExit(path, status['exitcode'])
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
  throw new BerthError('timeout', 'machine_timeout', `${path} in the guest did not end within ${timeoutMs} ms`)
}

function checkExit(path: string, code: unknown): void {
  if (code === 0) return
  throw new BerthError('conflict', 'guest_refused', `${path} failed in the guest`)
}
