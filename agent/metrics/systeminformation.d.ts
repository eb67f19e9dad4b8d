/** The only part of the library that the agent loads. The whole library would take 3 MB of memory. */
declare module 'systeminformation/lib/memory.js' {
  import type { Systeminformation } from 'systeminformation'
  /** Reads the host's memory usage, in bytes. */
  export function mem(): Promise<Systeminformation.MemData>
}
