import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { CliError, exitCodes, type ExitCode } from '../errors.js'
import { readGuest } from '../names/guest.js'
import { openSession, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface SshRun {
  readonly guest: string
  readonly command: readonly string[]
  readonly user: string
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Runs ssh and ends with its exit code. */
export async function runSsh({ guest, command, user, options, surroundings }: SshRun): Promise<void> {
  const session = await openSession(surroundings, options)
  const { name, ssh_command: line } = await readGuest(session, guest)
  const place = parseSshCommand(line)
  if (place) process.exit(await runProgram('ssh', sshArguments({ ...place, user }, command)))
  const hint = `map a port: berth port add ${name} --guest-port 22; set the address: berth host update HOST --public-address ADDRESS`
  throw new CliError(exitCodes.conflict, `guest ${name} has no address or port for SSH`, hint)
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

/** `--` ends the options, because an address that begins with "-" would otherwise be an option. */
export function sshArguments({ host, port, user }: SshPlace & { user: string }, command: readonly string[]): string[] {
  return ['-p', port, '-l', user, '--', host, ...command]
}

/** @returns the exit code, or 128 plus the number of the signal */
async function runProgram(program: string, args: readonly string[]): Promise<ExitCode> {
  const child = spawn(program, args, { stdio: 'inherit' })
  return new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new CliError(exitCodes.failed, `cannot run ${program}: ${cause.message}`)))
    child.once('exit', (code, signal) => resolve((code ?? 128 + constants.signals[signal!]) as ExitCode))
  })
}
