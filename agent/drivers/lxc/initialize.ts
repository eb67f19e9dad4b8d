import { BerthError } from '../../../shared/errors.js'
import { lxcAttach, type AttachResult, type LxcContainer } from '../../host/lxc.js'
import type { Login, Machine } from '../contract.js'
import { guestScript } from './guest-script.js'
import { signalExactly, type ProcessStat } from '../../host/proc.js'
import { isYoung } from './runtime.js'
import { hashPassword } from '../../host/password-hash.js'
import { checkLogin, planLoginInput, type HashedLogin } from './plan-login.js'

const sigCont = 18
const sigStop = 19
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
  options: { login: Login; init: ProcessStat; signal: AbortSignal },
): Promise<void> {
  const { login, init, signal } = options
  checkLogin(machine, login)
  const stdin = hashLogin(login).then((hashed) => planLoginInput(machine, hashed))
  const result = await whileHeld(init, () =>
    lxcAttach(container, guestScript, { stdin, timeoutMs, maxOutputBytes, signal }),
  )
  signal.throwIfAborted()
  if (result.code !== 0) throw initializeFailed(result)
}

/**
 * A guest that only begins to boot waits for its set-up: it then reads the new files, and does not compete
 * for its processors, which halves the time. Always let go, for an agent before may have died over it.
 */
async function whileHeld<T>(init: ProcessStat, act: () => Promise<T>): Promise<T> {
  if (isYoung(init)) signalExactly(init.pid, init.startTime, sigStop)
  try {
    return await act()
  } finally {
    signalExactly(init.pid, init.startTime, sigCont)
  }
}

async function hashLogin({ password, publicKey }: Login): Promise<HashedLogin> {
  const hash = password === undefined ? {} : { passwordHash: await hashPassword(password) }
  return publicKey === undefined ? hash : { ...hash, publicKey }
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
