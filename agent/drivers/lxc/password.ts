import { conflict } from '../../../shared/errors.js'
import { changeRoot } from '../../host/guest/guest-root.js'
import { lxcAttach, type LxcContainer } from '../../host/guest/lxc.js'
import { hashPassword } from '../../host/guest/password-hash.js'
import { readKernelFile } from '../../host/process/proc.js'
import { CommandError } from '../../host/process/process.js'
import { checkPassword } from './plan-login.js'

/** Limits for a program inside the guest, which is untrusted. */
const bounds = { timeoutMs: 10_000, maxOutputBytes: 65_536 }
/** Exit codes of lxc-attach, the same as those of env(1): the program cannot be run (126) or does not exist (127). */
const noProgramCodes = [126, 127]

/**
 * Sets root's password. The guest only gets the password's crypt(5) hash, on standard input. In a running guest, its
 * own chpasswd sets the password and respects the guest's locks. If chpasswd is missing (small images) or the guest is
 * stopped, the agent changes the files (docs/design/guest-login.md). This works even if the guest changes its files
 * meanwhile.
 * @param running the container; undefined if the guest is stopped
 * @param filter system call filter of the guest's processes
 * @throws {BerthError} `guest_refused` with the guest's reason
 */
export async function setRootPassword(
  volume: string,
  running: LxcContainer | undefined,
  { password, filter }: { password: string; filter: Buffer },
): Promise<void> {
  checkPassword(password)
  const hash = await hashPassword(password)
  try {
    if (running && (await tellGuest(running, hash, filter))) return
    await changeRoot(volume, [{ kind: 'password', hash }])
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    throw conflict('guest_refused', `the password could not be set in the guest: ${reasonOf(error)}`)
  }
}

/** Programs that lock /etc/passwd and /etc/shadow while they run. */
const accountPrograms = /^(passwd|chpasswd|vipw|vigr|chage|chfn|chsh|pwck|(user|group)(add|del|mod)|newusers)$/

/**
 * Sets root's password in the guest's files, unless a program that changes accounts is running in the guest. Ignores
 * lock files, because a killed program may have left them behind.
 * @param pids pids of the guest's processes
 * @throws {BerthError} `guest_refused`
 */
export async function overrideRootPassword(volume: string, password: string, pids: readonly number[]): Promise<void> {
  checkPassword(password)
  const busy = pids.map(findCommand).find((name) => accountPrograms.test(name))
  if (busy !== undefined)
    throw conflict('guest_refused', `the guest is changing its own accounts: ${busy} is running; try again later`)
  const hash = await hashPassword(password)
  try {
    await changeRoot(volume, [{ kind: 'password', hash }])
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    throw conflict('guest_refused', `the password could not be set in the guest: ${reasonOf(error)}`)
  }
}

function findCommand(pid: number): string {
  return readKernelFile(`/proc/${pid}/comm`)?.trim() ?? ''
}

/** Sets the password with the guest's own chpasswd. @returns false if the guest has no chpasswd */
async function tellGuest(container: LxcContainer, hash: string, filter: Buffer): Promise<boolean> {
  const okCodes = [0, ...noProgramCodes]
  const command = ['chpasswd', '--encrypted']
  const { code } = await lxcAttach(container, command, {
    ...bounds,
    okCodes,
    filter,
    stdin: `root:${hash}\n`,
  })
  return code === 0
}

/** Returns the untrusted output of the guest's program without control characters. */
function reasonOf({ message, stderr }: CommandError): string {
  const said = (stderr.trim() || message).replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
  return said.slice(0, 200)
}
