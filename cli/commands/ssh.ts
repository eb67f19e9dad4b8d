import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { areReplaced, HostKeys } from '../consoles/host-keys.js'
import { CliError, exitCodes } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { openSession, type GlobalOptions, type Session } from '../session.js'
import { printable } from '../output/width.js'
import type { Surroundings } from '../surroundings.js'

export interface SshRun {
  readonly guest: string
  readonly command: readonly string[]
  readonly user: string
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** The exit code of ssh if the connection failed. */
const sshFailed = 255

/**
 * Runs ssh and ends with its exit code. For a container, ssh knows the host keys that the gateway reports. These keys
 * are read again if ssh fails, because they can change, for example by a reinstallation. A lost connection has the same
 * exit code. ssh therefore runs again only if all keys have changed: the first ssh then ran no command.
 */
export async function runSsh({ guest, command, user, options, surroundings }: SshRun): Promise<void> {
  const session = await openSession(surroundings, options)
  const { name, uuid, virtualization, ssh_command: line } = await readGuest(session, guest)
  const place = parseSshCommand(line)
  if (!place) throw noPlace(name)
  const keys = virtualization === 'lxc' ? new HostKeys(surroundings, uuid) : undefined
  if (keys && !keys.areKnown) await keys.refresh(session)
  const run = (): Promise<number> => runProgram('ssh', sshArguments({ ...place, user, keys }, command))
  let code = await run()
  if (code === sshFailed && keys && (await hasNewKeys(keys, session))) {
    surroundings.writeError(`${printable(name)} has new host keys, which the gateway confirms. Connecting again.\n`)
    code = await run()
  }
  process.exit(code)
}

/** Reads the host keys again. @returns true if all keys have changed, so that ssh cannot have connected before */
async function hasNewKeys(keys: HostKeys, session: Session): Promise<boolean> {
  const before = keys.known
  await keys.refresh(session)
  return areReplaced(before, keys.known)
}

function noPlace(name: string): CliError {
  const hint = `map a port: berth port add ${name} --guest-port 22; set the address: berth host update HOST --public-address ADDRESS`
  return new CliError(exitCodes.conflict, `guest ${name} has no address or port for SSH`, hint)
}

interface SshPlace {
  readonly host: string
  readonly port: string
}

/** Reads address and port from the field `ssh_command` of the API. @returns undefined if the field is empty */
export function parseSshCommand(line: string): SshPlace | undefined {
  const [, port = '22', host] = /^ssh (?:-p (\d+) )?root@(\S+)$/.exec(line) ?? []
  return host === undefined ? undefined : { host, port }
}

interface SshTarget extends SshPlace {
  readonly user: string
  /** The file with the host keys of the guest; undefined: ssh uses its own files. */
  readonly keys?: Pick<HostKeys, 'areKnown' | 'path' | 'alias'> | undefined
}

/** `--` ends the options, because an address that begins with "-" would otherwise be an option. */
export function sshArguments({ host, port, user, keys }: SshTarget, command: readonly string[]): string[] {
  const known = keys?.areKnown ? knownHosts(keys) : []
  return [...known, '-p', port, '-l', user, '--', host, ...command]
}

/** ssh expands words with "%" in the path, and splits the path at spaces unless it is in quotes. */
const knownHosts = ({ path, alias }: Pick<HostKeys, 'path' | 'alias'>): string[] => [
  '-o',
  `UserKnownHostsFile="${path.replaceAll('%', '%%')}"`,
  '-o',
  `HostKeyAlias=${alias}`,
  '-o',
  'StrictHostKeyChecking=yes',
]

/** @returns the exit code, or 128 plus the number of the signal */
async function runProgram(program: string, args: readonly string[]): Promise<number> {
  const child = spawn(program, args, { stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new CliError(exitCodes.failed, `cannot run ${program}: ${cause.message}`)))
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal!]))
  })
}
