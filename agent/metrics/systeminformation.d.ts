/** One part of the library, which as a whole takes 3 MB that a daemon would keep. */
declare module 'systeminformation/lib/memory.js' {
  import type { Systeminformation } from 'systeminformation'
  /** Bytes. */
  export function mem(): Promise<Systeminformation.MemData>
}
