import { closeSync, constants, openSync, readSync } from 'node:fs'

/** The buffer is longer than any record of the kernel's log (CONSOLE_EXT_LOG_MAX in kernel/printk/internal.h). */
const record = Buffer.allocUnsafe(16 * 1024)
/** Time in ms for which kills are remembered. In practice, the kernel does not reuse a pid within this time. */
const rememberedMs = 60_000

/**
 * Parses a record of /dev/kmsg (kernel: ABI/testing/dev-kmsg, mm/oom_kill.c). Only records with the facility 0 count,
 * because programs cannot write them.
 * @returns the pid of a process that the kernel killed because memory ran out; undefined for other records
 */
export function parseMemoryKill(text: string): number | undefined {
  const found =
    /^([0-7]),[^;]*;(?:Memory cgroup out of memory: |Out of memory(?: \([a-z_]+\))?: )?Killed process (\d+) \(/.exec(
      text,
    )
  return found ? Number(found[2]) : undefined
}

/**
 * Finds out if the kernel killed a process because the memory of a cgroup or the host ran out. Reads the kernel's log,
 * because the cgroups of a guest and their counters no longer exist when its last process has ended.
 */
export class MemoryKills {
  /** Time in ms (`performance.now()`) at which each kill was read, by the pid of the killed process. */
  readonly #killed = new Map<number, number>()
  readonly #file: number | undefined

  constructor(path = '/dev/kmsg') {
    this.#file = open(path)
    this.#read() // skips older records, because they concern no process that this agent watches
    this.#killed.clear()
  }

  /** True if the kernel's log can be read, which requires CAP_SYSLOG. */
  get isAvailable(): boolean {
    return this.#file !== undefined
  }

  /** True if the kernel killed the process. @param pid pid of a process that has ended */
  wasKilled(pid: number): boolean {
    this.#read()
    const oldestMs = performance.now() - rememberedMs
    for (const [known, atMs] of this.#killed) if (atMs < oldestMs) this.#killed.delete(known)
    return this.#killed.has(pid)
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
  }

  /** Reads the new records. Their number is limited by the size of the kernel's ring buffer. */
  #read(): void {
    for (let text = this.#next(); text !== undefined; text = this.#next()) {
      const pid = parseMemoryKill(text)
      if (pid !== undefined) this.#killed.set(pid, performance.now())
    }
  }

  /** Reads the next record. Undefined: all records have been read. */
  #next(): string | undefined {
    if (this.#file === undefined) return undefined
    try {
      return record.toString('latin1', 0, readSync(this.#file, record))
    } catch (error) {
      // EPIPE: the oldest records were overwritten. Reading continues with the next record.
      return (error as NodeJS.ErrnoException).code === 'EPIPE' ? '' : undefined
    }
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    return undefined // in a container, the file can be forbidden or missing
  }
}
