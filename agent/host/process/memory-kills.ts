import { closeSync, constants, openSync, readSync } from 'node:fs'

/** Records are shorter than this (CONSOLE_EXT_LOG_MAX, kernel/printk/internal.h). */
const record = Buffer.allocUnsafe(16 * 1024)
/** In practice the kernel does not reuse a pid within this time. */
const rememberedMs = 60_000

/**
 * The process that a record of /dev/kmsg reports as killed by the kernel because memory ran out; undefined: no kill.
 * Source: Documentation/ABI/testing/dev-kmsg, mm/oom_kill.c. Programs cannot write records of the kernel's facility, 0.
 */
export function parseMemoryKill(text: string): number | undefined {
  const found =
    /^([0-7]),[^;]*;(?:Memory cgroup out of memory: |Out of memory(?: \([a-z_]+\))?: )?Killed process (\d+) \(/.exec(
      text,
    )
  return found ? Number(found[2]) : undefined
}

/**
 * Processes that the kernel killed because a group's or the host's memory ran out. The kernel's log is the only source:
 * once a guest's last process has ended, its cgroups and their counters no longer exist.
 */
export class MemoryKills {
  /** Time when each kill was read, by pid. */
  readonly #killed = new Map<number, number>()
  readonly #file: number | undefined

  constructor(path = '/dev/kmsg') {
    this.#file = open(path)
    this.#read() // older records concern no process that this agent watches
    this.#killed.clear()
  }

  /** True if the kernel's log can be read, which takes CAP_SYSLOG. */
  get isAvailable(): boolean {
    return this.#file !== undefined
  }

  /** @param pid pid of a process that has ended */
  wasKilled(pid: number): boolean {
    this.#read()
    const oldestMs = performance.now() - rememberedMs
    for (const [known, atMs] of this.#killed) if (atMs < oldestMs) this.#killed.delete(known)
    return this.#killed.has(pid)
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
  }

  /** Reads the new records; the size of the kernel's ring limits their number. */
  #read(): void {
    for (let text = this.#next(); text !== undefined; text = this.#next()) {
      const pid = parseMemoryKill(text)
      if (pid !== undefined) this.#killed.set(pid, performance.now())
    }
  }

  /** The next record; undefined: no more records. */
  #next(): string | undefined {
    if (this.#file === undefined) return undefined
    try {
      return record.toString('latin1', 0, readSync(this.#file, record))
    } catch (error) {
      // EPIPE: the oldest records were overwritten; reading continues with the rest.
      return (error as NodeJS.ErrnoException).code === 'EPIPE' ? '' : undefined
    }
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch {
    return undefined // not permitted, or missing in a container
  }
}
