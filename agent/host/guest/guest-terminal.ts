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

/** A guest's /dev/pts as it was first mounted, held open by a process of the host. */
export interface TerminalDirectory {
  readonly path: string
  /** Device number of its file system: stat(2). */
  readonly device: number
}

/** A program that gets the master of a new terminal of a guest as file 3, and the command that runs on the terminal. */
export interface GuestTerminal extends TerminalCommand {
  /** Absent if no process of the host holds them open. */
  readonly terminals: TerminalDirectory | undefined
  /** Command for a terminal of the host, in case the guest's own are not available. */
  readonly otherwise: TerminalCommand
}

/** linux/magic.h */
const devptsType = 0x1cd1
/** asm-generic/fcntl.h */
const O_PATH = 0o10000000

/**
 * @param monitorPid pid of lxc's monitor, which keeps a guest's terminals open. @returns undefined if it has none open
 */
export function findTerminals(monitorPid: number): TerminalDirectory | undefined {
  const files = listDirectory(`/proc/${monitorPid}/fd`).map((file) => `/proc/${monitorPid}/fd/${file}`)
  return files.map(asTerminals).find((one) => one !== undefined)
}

function asTerminals(path: string): TerminalDirectory | undefined {
  try {
    const stat = statSync(path)
    return stat.isDirectory() && statfsSync(path).type === devptsType ? { path, device: stat.dev } : undefined
  } catch {
    return undefined // closed meanwhile
  }
}

/**
 * Opens a new terminal. A guest can mount anything over `ptmx`, for example a link to a file of the host, so it is
 * checked before it is opened.
 * @returns its master; undefined if the guest has used up its terminals, or has something else at that path
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

/** Asks only the kernel, not a file system that a guest has mounted. */
function mountOf(fd: number): string {
  return /^mnt_id:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? ''
}

/**
 * Runs a program on a new terminal of a guest without a relay, so that a key passes one process less.
 * @throws {Error} if no ptys or processes are left
 */
export function openGuestPty(place: GuestTerminal, size: TerminalSize, listener: TerminalListener): Terminal {
  const fd = place.terminals && makeTerminal(place.terminals)
  if (fd === undefined) return openPty(place.otherwise, size, listener)
  try {
    setPtySize(fd, size) // its other side is not open yet
    return showOn(fd, start(place, fd), listener)
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function start({ program, args, env }: TerminalCommand, fd: number): ChildProcess {
  const stdio = ['pipe', 'ignore', 'pipe', fd] as const
  const child = spawn(program, args, { env, cwd: '/', detached: true, stdio: [...stdio] })
  child.on('error', () => undefined) // it has no pid
  if (child.pid === undefined) throw new Error(`${program} was not started`)
  return child
}

/** The program keeps the terminal open too, until its file 0 is closed: perl/guest-terminal.pl. */
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
  for (const stream of [sizes, errors]) stream.on('error', () => undefined) // `exit` reports the result
  child.on('exit', (code) => pty.ended(code ?? -1))
  return pty
}
