/** One part of the library. All of it would take 3 MB of the daemon's memory. */
declare module 'systeminformation/lib/memory.js' {
  import type { Systeminformation } from 'systeminformation'
  /** Bytes. */
  export function mem(): Promise<Systeminformation.MemData>
}
