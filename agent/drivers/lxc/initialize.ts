import { BerthError } from '../../../shared/errors.js'
import { lxcAttach, type AttachResult, type LxcContainer } from '../../host/lxc.js'
import type { Login, Machine } from '../contract.js'
import { guestScript } from './guest-script.js'
import { planLoginInput } from './plan-login.js'

const timeoutMs = 10_000
const maxOutputBytes = 65_536

/**
 * Sets host name, hosts, resolv.conf and root's login from inside the guest. No user text is in any
 * argument list, and nothing of the guest's files is opened by the host.
 * @throws {BerthError} `guest_initialize_failed`
 */
export async function initializeGuest(
  container: LxcContainer,
  machine: Machine,
  options: { login: Login; signal: AbortSignal },
): Promise<void> {
  const stdin = planLoginInput(machine, options.login)
  const { signal } = options
  const result = await lxcAttach(container, guestScript, { stdin, timeoutMs, maxOutputBytes, signal })
  signal.throwIfAborted()
  if (result.code !== 0) throw initializeFailed(result)
}

function initializeFailed({ code, reason, stderr }: AttachResult): BerthError {
  // The text is the guest's: kept short and printable for logs.
  const said = stderr
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, 300)
  const why = code === undefined ? reason : `exit code ${code}`
  return new BerthError('internal', 'guest_initialize_failed', `set-up inside the guest: ${why}: ${said}`)
}
