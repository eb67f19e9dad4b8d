import { closeSync, openSync, readSync, readlinkSync, readdirSync, statSync } from 'node:fs'

/*
 * This module reads the host's /proc. Reads are synchronous, because procfs answers from memory in about 10 µs, and the
 * thread pool would take several times as long. For a process that no longer exists, functions return `undefined` or an
 * empty result.
 */

export interface ProcessStat {
  readonly pid: number
  readonly command: string
  /** State as a letter (proc_pid_stat(5)), for example R (running), D (uninterruptible) and Z (zombie). */
  readonly state: string
  readonly parentPid: number
  /** Time of the start in clock ticks after boot (field 22). It distinguishes processes with the same pid. */
  readonly startTime: number
}

const goneCodes = new Set(['ENOENT', 'ESRCH', 'ENODEV', 'ENOTDIR'])

/** True if a call failed because a process, interface, group or file disappeared after it was listed. */
export function isGone(error: unknown): boolean {
  return goneCodes.has((error as NodeJS.ErrnoException).code ?? '')
}

/** Buffer that all reads share. `readFileSync` would allocate one per read, and query a size that these files lack. */
const scratch = Buffer.allocUnsafeSlow(64 * 1024)

/** Reads a kernel file; `undefined` if the file or its process no longer exists. */
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

/** Parses /proc/pid/stat. The command can contain spaces and `)`, so fields are counted after the last `)`. */
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

/** Finds a live process. Zombies count as dead, because PID 1 sometimes reaps them late. */
export function findLiveProcess(pid: number): ProcessStat | undefined {
  const stat = findProcess(pid)
  return stat && stat.state !== 'Z' && stat.state !== 'X' ? stat : undefined
}

/** True if a process with that pid exists, even as a zombie. This is much faster than reading the process's state. */
export function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** True if the process with this pid and start time is still alive. */
export function isSameProcess(pid: number, startTime: number): boolean {
  return findLiveProcess(pid)?.startTime === startTime
}

export function readBootId(): string {
  return (readKernelFile('/proc/sys/kernel/random/boot_id') ?? '').trim()
}

/** Reads the pids of the children of all threads of a process (requires CONFIG_PROC_CHILDREN). */
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
 * Parses the signals that a process handles: those that it catches, and those that it blocks to receive them by
 * signalfd or sigwait. Bit 0 is signal 1. If SIGSEGV is blocked, blocked signals do not count as handled, because libc
 * blocks all signals around a fork.
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
    return undefined // the process has ended, or is a zombie without this file
  }
}

/** Identifies a process's program by device and inode. The program's path would depend on the process's root. */
export function findProgram(pid: number): string | undefined {
  try {
    const { dev, ino } = statSync(`/proc/${pid}/exe`)
    return `${dev}:${ino}`
  } catch {
    return undefined // the process has ended; EACCES: it is about to end
  }
}

/**
 * Sends SIGKILL if the process with this pid still has this start time. The check and the signal are two system calls,
 * but the kernel does not reuse a pid within microseconds.
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

/** Parses the counters of every interface in /proc/net/dev. */
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

/**
 * True if this process sees the same process ids that messages of the kernel contain. In a container, the ids differ,
 * so an agent there cannot recognize its own changes of the network. Source: PROC_PID_INIT_INO in linux/proc_ns.h
 */
export function hasKernelPids(): boolean {
  return readlinkSync('/proc/self/ns/pid') === 'pid:[4026531836]'
}
