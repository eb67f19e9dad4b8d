import { conflict } from '../../../shared/errors.js'
import { changeRoot } from '../../host/guest-root.js'
import { lxcAttach, type LxcContainer } from '../../host/lxc.js'
import { hashPassword } from '../../host/password-hash.js'
import { CommandError } from '../../host/process.js'
import { checkPassword } from './plan-login.js'

/** The guest's own program, which may be anything: more time or words it does not get. */
const bounds = { timeoutMs: 10_000, maxOutputBytes: 65_536 }
/** lxc-attach's, as env(1): the program cannot be run, or is not there. */
const noProgramCodes = [126, 127]

/**
 * Sets root's password. The guest gets a crypt(5) hash of it alone, on standard input. In one that runs its own
 * chpasswd takes it, which knows the guest's locks. Where there is none, as in small images, and in one that does not
 * run, it goes into the files (docs/decisions/0052), whoever changes them meanwhile.
 * @param running undefined: it does not run
 * @param filter what the guest's processes are confined by
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
    throw conflict('guest_refused', `the guest did not take the password: ${reasonOf(error)}`)
  }
}

/** @returns false: it has no chpasswd */
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

/** What a guest's program says is text of a stranger. */
function reasonOf({ message, stderr }: CommandError): string {
  const said = (stderr.trim() || message).replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
  return said.slice(0, 200)
}
