import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, constants, fstatSync, openSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { listDirectory } from '../process/proc.js'
import {
  openPty,
  Pty,
  setPtySize,
  type Terminal,
  type TerminalCommand,
  type TerminalListener,
  type TerminalSize,
} from '../process/pty.js'

/** A guest's original mount of /dev/pts, which a process of the host keeps open. */
export interface TerminalDirectory {
  readonly path: string
  /** Device number of the file system at `path` (stat(2)). */
  readonly device: number
}

/**
 * Describes how to run a command on a guest's terminal. `program` gets the terminal's master as descriptor 3 and runs
 * the command.
 */
export interface GuestTerminal extends TerminalCommand {
  /** The guest's /dev/pts. Undefined: no process of the host has it open, so the host cannot reach it. */
  readonly terminals: TerminalDirectory | undefined
  /** Command to run on a terminal of the host if all terminals of the guest are in use. */
  readonly otherwise: TerminalCommand
}

/** Type of the devpts file system (linux/magic.h). */
const devptsType = 0x1cd1
/** Flag of open(2) (asm-generic/fcntl.h). */
const O_PATH = 0o10000000

/** Finds the /dev/pts that lxc's monitor keeps open. @returns undefined if the monitor has no /dev/pts open */
export function findTerminals(monitorPid: number): TerminalDirectory | undefined {
  const files = listDirectory(`/proc/${monitorPid}/fd`).map((file) => `/proc/${monitorPid}/fd/${file}`)
  return files.map(asTerminals).find((one) => one !== undefined)
}

function asTerminals(path: string): TerminalDirectory | undefined {
  try {
    const stat = statSync(path)
    return stat.isDirectory() && statfsSync(path).type === devptsType ? { path, device: stat.dev } : undefined
  } catch {
    return undefined // the file was closed
  }
}

/**
 * Opens a new terminal. A guest can mount anything over `ptmx`, such as a link to a file of the host. Therefore `ptmx`
 * is checked before it is opened.
 * @returns the master; undefined if the guest has used up its terminals, or has mounted something else over `ptmx`
 */
export function makeTerminal({ path, device }: TerminalDirectory): number | undefined {
  const open: number[] = []
  const find = (what: string): number => open[open.push(openSync(what, O_PATH | constants.O_NOFOLLOW)) - 1]!
  try {
    const directory = find(`${path}/.`)
    const ptmx = find(`/proc/self/fd/${directory}/ptmx`)
    if (fstatSync(directory).dev !== device || mountOf(ptmx) !== mountOf(directory)) return undefined
    return openSync(`/proc/self/fd/${ptmx}`, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK)
  } catch {
    return undefined
  } finally {
    open.forEach((fd) => closeSync(fd))
  }
}

/** Returns the id of a file's mount. Reads it from /proc, because a guest may have mounted a hostile file system. */
function mountOf(fd: number): string {
  return /^mnt_id:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? ''
}

/**
 * Runs a program on a new terminal of a guest, without a process that relays input and output.
 * @throws {Error} if no terminals or processes are available
 */
export function openGuestPty(place: GuestTerminal, size: TerminalSize, listener: TerminalListener): Terminal {
  const fd = place.terminals && makeTerminal(place.terminals)
  if (fd === undefined) return openPty(place.otherwise, size, listener)
  try {
    setPtySize(fd, size) // the size must be set before the program opens the terminal
    return showOn(fd, start(place, fd), listener)
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function start({ program, args, env }: TerminalCommand, fd: number): ChildProcess {
  const stdio = ['pipe', 'ignore', 'pipe', fd] as const
  const child = spawn(program, args, { env, cwd: '/', detached: true, stdio: [...stdio] })
  child.on('error', () => undefined) // the check of `pid` below reports this error
  if (child.pid === undefined) throw new Error(`the program ${program} could not be started in the guest`)
  return child
}

/** Connects the listener to the program perl/guest-terminal.pl, which closes the terminal when its stdin is closed. */
function showOn(fd: number, child: ChildProcess, listener: TerminalListener): Pty {
  const [sizes, errors] = [child.stdin!, child.stderr!]
  const setSize = ({ columns, rows }: TerminalSize): void =>
    void sizes.write(Buffer.from(Uint16Array.of(rows, columns).buffer))
  const onExit = (code: number): void => {
    errors.destroy()
    listener.onExit(code)
  }
  const started = { fd, pid: child.pid!, setSize, letGo: () => void sizes.destroy() }
  const pty = new Pty(started, { ...listener, onExit })
  errors.on('data', (text: Buffer) =>
    listener.onData(Buffer.from(text.toString('latin1').replaceAll('\n', '\r\n'), 'latin1')),
  )
  for (const stream of [sizes, errors]) stream.on('error', () => undefined) // the event `exit` reports the result
  child.on('exit', (code) => pty.ended(code ?? -1))
  return pty
}
