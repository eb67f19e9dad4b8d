import { closeSync, openSync, readSync, readlinkSync, readdirSync, statSync } from 'node:fs'

/*
 * Reads the host's /proc. Reads are synchronous on purpose: procfs answers from memory in some 10 µs, and the thread
 * pool costs several times that. A process that no longer exists yields `undefined` or an empty result.
 */

export interface ProcessStat {
  readonly pid: number
  readonly command: string
  /** A letter of proc_pid_stat(5): R running, D uninterruptible, Z zombie … */
  readonly state: string
  readonly parentPid: number
  /** Clock ticks after boot (field 22); differs for a reused pid. */
  readonly startTime: number
}

const goneCodes = new Set(['ENOENT', 'ESRCH', 'ENODEV', 'ENOTDIR'])

/** True if a call failed because a process, interface, group or file disappeared after it was listed. */
export function isGone(error: unknown): boolean {
  return goneCodes.has((error as NodeJS.ErrnoException).code ?? '')
}

/**
 * Buffer that all reads share. `readFileSync` allocates one for each read, and queries a size that these files do not
 * report.
 */
const scratch = Buffer.allocUnsafeSlow(64 * 1024)

/** Content of a kernel file; `undefined` if it or its process no longer exists. */
export function readKernelFile(path: string): string | undefined {
  try {
    return readAll(path)
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

function readAll(path: string): string {
  const file = openSync(path, 'r')
  try {
    let text = ''
    for (let length = -1; length !== 0;) {
      length = readSync(file, scratch)
      text += scratch.toString('latin1', 0, length)
    }
    return text
  } finally {
    closeSync(file)
  }
}

/** The command may contain spaces and parentheses, so fields are counted after the last `)`. */
export function parseProcessStat(text: string): ProcessStat {
  const open = text.indexOf('(')
  const close = text.lastIndexOf(')')
  const fields = text.slice(close + 2).split(' ')
  return {
    pid: Number(text.slice(0, open)),
    command: text.slice(open + 1, close),
    state: fields[0] ?? '',
    parentPid: Number(fields[1]),
    startTime: Number(fields[19]),
  }
}

export function findProcess(pid: number): ProcessStat | undefined {
  const text = readKernelFile(`/proc/${pid}/stat`)
  return text === undefined ? undefined : parseProcessStat(text)
}

/** A live process; zombies count as dead, as PID 1 may reap them late. */
export function findLiveProcess(pid: number): ProcessStat | undefined {
  const stat = findProcess(pid)
  return stat && stat.state !== 'Z' && stat.state !== 'X' ? stat : undefined
}

/**
 * True if a process with that pid exists, dead or alive. This is one system call, much cheaper than reading its state.
 */
export function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** True if this same process is still alive. */
export function isSameProcess(pid: number, startTime: number): boolean {
  return findLiveProcess(pid)?.startTime === startTime
}

/** Identifies the host's current boot. */
export function readBootId(): string {
  return (readKernelFile('/proc/sys/kernel/random/boot_id') ?? '').trim()
}

/** Children of all the process's threads (CONFIG_PROC_CHILDREN). */
export function readChildren(pid: number): number[] {
  return listDirectory(`/proc/${pid}/task`).flatMap((thread) =>
    parsePids(readKernelFile(`/proc/${pid}/task/${thread}/children`) ?? ''),
  )
}

export function parsePids(text: string): number[] {
  return text.split(/\s+/).filter(Boolean).map(Number)
}

const sigSegvBit = 1n << 10n

/**
 * Signals that the process catches, or blocks in order to receive them by signalfd or sigwait; bit 0 is signal 1. libc
 * blocks all signals around a fork: while SIGSEGV is blocked, blocked signals do not count.
 */
export function parseHandledSignals(status: string): bigint {
  const mask = (name: string): bigint =>
    BigInt('0x' + (new RegExp(`^${name}:\\s*([0-9a-f]+)$`, 'm').exec(status)?.[1] ?? '0'))
  const blocked = mask('SigBlk')
  return mask('SigCgt') | (blocked & sigSegvBit ? 0n : blocked)
}

export function readHandledSignals(pid: number): bigint {
  return parseHandledSignals(readKernelFile(`/proc/${pid}/status`) ?? '')
}

export function findNamespace(pid: number, kind: 'pid' | 'net'): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/${kind}`)
  } catch {
    return undefined // gone, or a zombie, which has no such file
  }
}

/** The program's file by inode, since its path depends on the root from which it is seen. */
export function findProgram(pid: number): string | undefined {
  try {
    const { dev, ino } = statSync(`/proc/${pid}/exe`)
    return `${dev}:${ino}`
  } catch {
    return undefined // ended or ending; EACCES if it ends right now
  }
}

/**
 * Sends SIGKILL to exactly this process. Check and signal are two calls, but reusing the pid in between would need the
 * kernel to wrap through the whole pid range within microseconds.
 */
export function killExactly(pid: number, startTime: number): void {
  signalExactly(pid, startTime, 9)
}

export function signalExactly(pid: number, startTime: number, signal: number): void {
  if (!isSameProcess(pid, startTime)) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

export interface InterfaceBytes {
  readonly rxBytes: number
  readonly txBytes: number
}

/** Counters of every interface, parsed from /proc/net/dev. */
export function parseNetDev(text: string): Map<string, InterfaceBytes> {
  const interfaces = new Map<string, InterfaceBytes>()
  for (const line of text.split('\n').slice(2)) {
    const colon = line.indexOf(':')
    if (colon < 0) continue
    const fields = line
      .slice(colon + 1)
      .trim()
      .split(/\s+/)
      .map(Number)
    interfaces.set(line.slice(0, colon).trim(), { rxBytes: fields[0] ?? 0, txBytes: fields[8] ?? 0 })
  }
  return interfaces
}

export function listDirectory(path: string): string[] {
  try {
    return readdirSync(path)
  } catch (error) {
    if (isGone(error)) return []
    throw error
  }
}
