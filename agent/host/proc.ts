import { readFileSync, readlinkSync, readdirSync, statSync } from 'node:fs'

/*
 * /proc of the host. Reads are synchronous on purpose: procfs answers from memory in some 10 µs, a trip
 * through the thread pool costs several times that. A process that is gone reads as `undefined` or empty.
 */

export interface ProcessStat {
  readonly pid: number
  readonly command: string
  /** One letter, proc_pid_stat(5): R running, D uninterruptible, Z zombie … */
  readonly state: string
  readonly parentPid: number
  /** Clock ticks after boot (field 22): tells a reused pid apart. */
  readonly startTime: number
}

const goneCodes = new Set(['ENOENT', 'ESRCH', 'ENODEV', 'ENOTDIR'])

function isGone(error: unknown): boolean {
  return goneCodes.has((error as NodeJS.ErrnoException).code ?? '')
}

/** Text of a small kernel file, `undefined` when it, or the process it is about, is gone. */
export function readKernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1')
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** The command may hold spaces and parentheses, so fields are counted after the last `)`. */
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

/** A live process; zombies are dead (PID 1 may take its time to reap them). */
export function findLiveProcess(pid: number): ProcessStat | undefined {
  const stat = findProcess(pid)
  return stat && stat.state !== 'Z' && stat.state !== 'X' ? stat : undefined
}

/** Whether there is a process of that number, dead or alive: a system call, a fraction of reading its state. */
export function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Is it still this very process? */
export function isSameProcess(pid: number, startTime: number): boolean {
  return findLiveProcess(pid)?.startTime === startTime
}

/** Names the time since the host's start: another one after each. */
export function readBootId(): string {
  return (readKernelFile('/proc/sys/kernel/random/boot_id') ?? '').trim()
}

/** Children of all threads (CONFIG_PROC_CHILDREN). */
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
 * Signals the process catches, or blocks to take them by signalfd or sigwait; bit 0 is signal 1. libc blocks
 * everything around a fork: that, told by SIGSEGV, says nothing.
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
    return undefined // gone, or a zombie, which has none
  }
}

/** The file it runs, by inode: the path would be told as seen from different roots. */
export function findProgram(pid: number): string | undefined {
  try {
    const { dev, ino } = statSync(`/proc/${pid}/exe`)
    return `${dev}:${ino}`
  } catch {
    return undefined // gone, or ending; EACCES when it goes just then
  }
}

/**
 * SIGKILL to exactly this process. The check and the signal are two calls: for a pid to be reused between
 * them, the kernel would have to wrap through the whole pid range in microseconds.
 */
export function killExactly(pid: number, startTime: number): void {
  signalExactly(pid, startTime, 9)
}

export function signalExactly(pid: number, startTime: number, signal: number): void {
  if (!isSameProcess(pid, startTime)) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

export interface InterfaceBytes {
  readonly rxBytes: number
  readonly txBytes: number
}

/** Counters of every interface from the text of /proc/net/dev. */
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
